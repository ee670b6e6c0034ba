package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// TestStrangersCostLittle: two hundred callers at a time without a key, or with a wrong one, who announce a body of four megabytes and never send it, cost a few
// kilobytes each while they are refused, and nothing afterwards.
func TestStrangersCostLittle(t *testing.T) {
	const strangers, left = 200, 1 << 10 // bytes
	each := uint64(16 << 10)             // our side of the connection included
	if testing.Short() {                 // as under the race detector, which loses some of what comes back to a pool
		each *= 2
	}
	k := newEdge(t, Config{}, nil, nothing)
	closed := make(chan struct{}, 2*strangers)
	server := &http.Server{Handler: k.edge, ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	visit := func(n int) {
		conns, reply := make([]net.Conn, n), make([]byte, 4<<10)
		for i := range conns {
			if conns[i], err = new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
			_ = conns[i].SetDeadline(time.Now().Add(time.Minute))
			credential := []string{"", "Authorization: Bearer sk-sluice-nobody\r\n"}[i%2]
			if _, err := fmt.Fprintf(conns[i], "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n%s\r\n", credential); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range conns {
			got, err := io.ReadFull(c, reply) // until the server hangs up
			if err != io.ErrUnexpectedEOF || !bytes.HasPrefix(reply[:got], []byte("HTTP/1.1 401 ")) {
				t.Fatalf("%v after %q", err, reply[:got])
			}
			_ = c.Close()
		}
		for range n {
			<-closed
		}
	}
	visit(2 * runtime.GOMAXPROCS(0)) // whoever comes first fills pools
	routines := runtime.NumGoroutine()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	visit(strangers)
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > routines && time.Now().Before(end); {
		runtime.Gosched()
	}
	used := before.TotalAlloc
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used = (after.TotalAlloc - used) / strangers; used > each {
		t.Errorf("a stranger costs %d bytes", used)
	}
	if more := int64(after.HeapAlloc) - int64(before.HeapAlloc); more > strangers*left {
		t.Errorf("%d bytes are still held after %d strangers", more, strangers)
	}
	if n := runtime.NumGoroutine(); n > routines {
		t.Errorf("%d goroutines instead of %d", n, routines)
	}
}
