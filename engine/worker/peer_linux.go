package worker

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// checkPeer reports an error unless the other end of a unix socket runs under the account uid, or as root.
func checkPeer(c net.Conn, uid int) error {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("look at the other end: %T is no socket", c)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("look at the other end: %w", err)
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return fmt.Errorf("look at the other end: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("look at the other end: %w", failed)
	}
	return checkAccount(peer.Uid, uid)
}
