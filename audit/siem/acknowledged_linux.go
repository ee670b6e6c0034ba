package siem

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// acknowledged returns an error unless the other machine has taken every byte, and our half's end. One that closed early refuses what comes
// later: the refusal is known already, or the bytes are still on their way.
func acknowledged(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for the state of the connection: %w", err)
	}
	var refused int
	var info *unix.TCPInfo
	var rerr, ierr error
	if err := raw.Control(func(fd uintptr) {
		refused, rerr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		info, ierr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return fmt.Errorf("ask for the state of the connection: %w", err)
	}
	switch err := errors.Join(rerr, ierr); {
	case err != nil:
		return fmt.Errorf("ask for the state of the connection: %w", err)
	case refused != 0:
		return fmt.Errorf("the receiver closed before it had read to the end: %w", unix.Errno(refused))
	case info.Unacked > 0 || info.Notsent_bytes > 0:
		return errors.New("the receiver closed before it had read to the end")
	}
	return nil
}
