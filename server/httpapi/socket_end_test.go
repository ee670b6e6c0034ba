package httpapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/gateway"
)

// rawSocket opens a WebSocket by hand, for what a library of clients does not send.
func rawSocket(t testing.TB, k *kit) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.URL+socketPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + goodKey}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%s, %v", line, err)
	}
	return conn
}

// announce sends the beginning of a frame that is to have so many bytes, and some of them.
func announce(t testing.TB, conn net.Conn, first byte, length uint64, some string) {
	t.Helper()
	frame := append(binary.BigEndian.AppendUint64([]byte{first, 0x80 | 127}, length), 0, 0, 0, 0) // masked with nothing
	if _, err := conn.Write(append(frame, some...)); err != nil {
		t.Fatal(err)
	}
}

// until waits for a connection to give back what it holds.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("not so within 30 s: " + what)
		}
	}
}

const (
	opText   = 1
	opBinary = 2
	last     = 0x80 // frame of a message
)

// TestSocketsEnd: whoever announces a frame without end and goes silent holds nothing for long once the connection is to end, whatever it ends for.
func TestSocketsEnd(t *testing.T) {
	revoked := make(chan struct{})
	k := newKitWith(t, Config{WriteTimeout: 200 * time.Millisecond}, nil, func(d *gateway.Deps) { d.Identity = revocable{d.Identity.(*kit), revoked} })
	kind, key, stops := rawSocket(t, k), rawSocket(t, k), rawSocket(t, k)
	begun := strings.Repeat(" ", 2*maxControlFrame)
	announce(t, kind, last|opBinary, 1<<40, "")
	until(t, "a frame of the wrong kind holds nothing", func() bool { return k.api.bodies.Held() <= 2*socketBytes })
	close(revoked)
	announce(t, key, last|opText, 1<<40, begun)
	until(t, "a frame of a revoked key holds nothing", func() bool { return k.api.bodies.Held() <= socketBytes })
	announce(t, stops, last|opText, 1<<40, "{")
	k.api.Drain()
	until(t, "a frame that the stop interrupts holds nothing", func() bool { return k.api.bodies.Held() == 0 })
}

// TestSocketCutMessages: what a client sent of a message before its connection broke is no chat, though it may read as one.
func TestSocketCutMessages(t *testing.T) {
	k := newKit(t, Config{}, nil)
	chat := hello + "}"
	exact := chat + strings.Repeat(" ", maxControlFrame-len(chat))
	for _, send := range []func(net.Conn){
		func(c net.Conn) { announce(t, c, last|opText, uint64(len(chat))+1, chat) },
		func(c net.Conn) { announce(t, c, last|opText, uint64(len(exact))+1, exact) },
		func(c net.Conn) { announce(t, c, opText, uint64(len(chat)), chat) }, // whole, and of a message that goes on
		func(c net.Conn) { announce(t, c, opText, uint64(len(exact))+1, exact+" ") },
	} {
		conn := rawSocket(t, k)
		send(conn)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		until(t, "the connection is over", func() bool { return k.api.bodies.Held() == 0 })
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.events) != 0 || len(k.engine.Requests()) != 0 {
		t.Errorf("%d records, the engine was asked %d times", len(k.events), len(k.engine.Requests()))
	}
}

// TestSocketWaitsForSlowClients: a client that has not come to answering pings is not gone.
func TestSocketWaitsForSlowClients(t *testing.T) {
	start, pings := make(chan struct{}), make(chan struct{}, 1000)
	k := newKit(t, Config{KeepAlive: time.Millisecond, WriteTimeout: 50 * time.Millisecond}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} })
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(k.URL, "http", "ws", 1)+socketPath, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + goodKey}},
		OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pings <- struct{}{}:
			default:
			}
			return false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	say(t, conn, hello+"}")
	got := make(chan error, 1)
	go func() { _, _, err := conn.Read(t.Context()); got <- err }()
	for range 3 {
		select {
		case <-pings:
		case err := <-got:
			t.Fatalf("it was cut: %v", err)
		}
	}
	close(start)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestSocketSurvivesFaults: a fault of the program ends the connection that met it, with the code for that, and nothing else.
func TestSocketSurvivesFaults(t *testing.T) {
	k := newKit(t, Config{}, nil)
	conn := k.dial(t)
	k.api.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("SECRET1") })
	say(t, conn, hello+"}")
	if code := closed(t, conn); code != websocket.StatusInternalError || !strings.Contains(k.logs.String(), "panic") || strings.Contains(k.logs.String(), secret) {
		t.Errorf("%v, %s", code, k.logs)
	}
	until(t, "the connection is over", func() bool { return k.api.bodies.Held() == 0 })
}
