package httpapi

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// tightListener gives each connection little room for what its client does not take.
type tightListener struct{ net.Listener }

func (l tightListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// tightDial is a client's side of the same.
func tightDial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	return c, err
}

const (
	slowPieces = 4000 // of the answer that nobody takes, some 250 bytes each on the wire
	mostAhead  = 1000 // what the buffers of connections can hold of it, several times
)

// TestASlowReaderIsAlone: a client that takes nothing holds up its own engine, so that nothing piles up for it, and nobody else's: others are
// answered as if it were not there. When it is gone, its engine stops.
func TestASlowReaderIsAlone(t *testing.T) {
	ask := `{"model":"chat","stream":true,"max_tokens":4000,"messages":[{"role":"user","content":"slow"}]}`
	for name, begin := range map[string]func(t *testing.T, k *kit) (leave func()){
		"events": func(t *testing.T, k *kit) func() {
			t.Helper()
			conn, err := tightDial(t.Context(), "tcp", k.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.URL+socketPath, strings.NewReader(ask))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+goodKey)
			if err := r.Write(conn); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
				t.Fatalf("%s, %v", line, err)
			}
			return func() { _ = conn.Close() }
		},
		"frames": func(t *testing.T, k *kit) func() {
			t.Helper()
			conn, _, err := websocket.Dial(t.Context(), strings.Replace(k.URL, "http", "ws", 1)+socketPath, &websocket.DialOptions{
				HTTPClient: &http.Client{Transport: &http.Transport{DialContext: tightDial}},
				HTTPHeader: http.Header{"Authorization": {"Bearer " + goodKey}},
			})
			if err != nil {
				t.Fatal(err)
			}
			say(t, conn, ask)
			hear(t, conn)
			return func() { _ = conn.CloseNow() }
		},
	} {
		var made atomic.Int64
		step, over := make(chan struct{}), make(chan struct{})
		defer close(over)
		go func() { // the engine of the slow one is as fast as it is read
			for {
				select {
				case step <- struct{}{}:
					made.Add(1)
				case <-over:
					return
				}
			}
		}()
		k := newEdge(t, Config{WriteTimeout: 10 * time.Minute}, func(_ int, req *engine.Request) enginetest.Plan {
			if req.Messages[0].Content != "slow" {
				return enginetest.Plan{}
			}
			return enginetest.Plan{Texts: []string{strings.Repeat("abc", slowPieces)}, Step: step}
		}, nothing)
		k.Server = httptest.NewUnstartedServer(k.edge)
		k.Listener = tightListener{k.Listener}
		k.Start()
		t.Cleanup(k.Close)
		leave := begin(t, k)
		others := func() {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for _, path := range []string{socketPath, socketSurface} {
						if _, body := k.post(t, path, hello+`,"stream":true}`); !strings.Contains(body, "[DONE]") {
							t.Errorf("%s: %s", name, body)
						}
					}
				})
			}
			all.Wait()
			for range 40 {
				<-k.ended
			}
		}
		for stood := int64(-1); stood != made.Load() && stood <= mostAhead; { // until nothing is made while all others are answered
			stood = made.Load()
			others()
		}
		select {
		case <-k.ended:
			t.Errorf("%s: the slow one has ended: %+v", name, k.last())
		default:
		}
		if n := made.Load(); n > mostAhead {
			t.Errorf("%s: %d pieces were made for a client that takes none", name, n)
		}
		leave()
		<-k.ended
		if e := k.last(); e.Outcome != "aborted" || e.Usage.CompletionTokens == 0 || e.Usage.CompletionTokens > mostAhead {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
