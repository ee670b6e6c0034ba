package siem

import (
	"net"
	"testing"
	"time"
)

// TestAcknowledged: bytes that the other machine has not taken, and those that it refused, are told from those that it has. On a loopback a
// refusal is there at once; on a network this is what tells an early close from one at the end.
func TestAcknowledged(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	pair := func() (mine, theirs *net.TCPConn) {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		must(t, err)
		other, err := l.Accept()
		must(t, err)
		t.Cleanup(func() { _ = c.Close(); _ = other.Close() })
		return c.(*net.TCPConn), other.(*net.TCPConn)
	}
	until := func(c *net.TCPConn, want bool) {
		t.Helper()
		var err error
		for range 1000 {
			if err = acknowledged(c); (err == nil) == want {
				return
			}
			time.Sleep(time.Millisecond) // the kernel's work: nothing signals it
		}
		t.Fatalf("acknowledged: %v", err)
	}
	taken, _ := pair()
	_, err = taken.Write([]byte("all of it"))
	must(t, err)
	until(taken, true)

	full, _ := pair()
	must(t, full.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for err == nil { // until nothing more fits
		_, err = full.Write(make([]byte, 1<<20))
	}
	until(full, false)

	refused, theirs := pair()
	must(t, theirs.SetLinger(0))
	must(t, theirs.Close())
	until(refused, false)
}
