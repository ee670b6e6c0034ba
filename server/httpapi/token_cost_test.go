package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// speaker is an engine that says as many words as it may, one an event. It costs nothing itself.
type speaker struct {
	*enginetest.Scripted

	words []string
	said  chan time.Time // when a word went out; nil: nobody asks
	heard chan struct{}  // waited for after each word
}

func (s *speaker) Generate(_ context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for i := range p.Request.MaxTokens {
			if s.said != nil {
				s.said <- time.Now()
			}
			if !yield(engine.Event{Text: s.words[i%len(s.words)]}, nil) {
				return
			}
			if s.said != nil {
				<-s.heard
			}
		}
		if yield(engine.Event{Finish: engine.FinishLength}, nil) {
			yield(engine.Event{Usage: &engine.Usage{PromptTokens: 3, CompletionTokens: p.Request.MaxTokens}}, nil)
		}
	}
}

// newSpeaking returns a server on this machine with the real rules, under a policy that counts values of answers and keeps no texts, as the default one does.
func newSpeaking(t *testing.T) (*kit, *speaker) {
	t.Helper()
	guard, err := governance.New(governance.Config{}, governance.NewPolicyStore(dbtest.SQLite(t)), keyring.FromBytes(make([]byte, 32)), classify.New(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := strings.Replace(policyFor("observe"), "record: masked\n", "", 1)
	if _, err := guard.Publish(t.Context(), governance.EveryTenant, []byte(policy), "test"); err != nil {
		t.Fatal(err)
	}
	english := strings.SplitAfter("The quick brown fox jumps over lazy dogs, twice; see section three of the report. ", " ")
	s := &speaker{Scripted: enginetest.NewScripted(nil), words: slices.Concat(english, strings.Split("今天天气很好，我们去公园散步吧。费用是多少？", ""))}
	return newKitWith(t, Config{}, nil, func(d *gateway.Deps) {
		d.Guard, d.Router = gateway.FromGuard(guard), speaking{d.Router.(*kit), s}
	}), s
}

// speaking leads to the speaker.
type speaking struct {
	*kit

	engine engine.Engine
}

func (s speaking) Pick(a route.Ask) (route.Choice, error) {
	c, err := s.kit.Pick(a)
	c.Instance = pool.Alone(s.engine)
	return c, err
}

// listener is a client that allocates nothing.
type listener struct {
	net.Conn

	request, buf []byte
}

func newListener(t *testing.T, k *kit, path, asked string, words int) *listener {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	body := fmt.Sprintf(`{"model":"chat","stream":true,"max_tokens":%d,%s}`, words, asked)
	return &listener{Conn: conn, buf: make([]byte, 64<<10), request: fmt.Appendf(nil,
		"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, goodKey, len(body), body)}
}

// answer asks and reads until the end of the reply; it returns how many events came.
func (l *listener) answer(t *testing.T) (events int) {
	t.Helper()
	if _, err := l.Write(l.request); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for {
		n, err := l.Read(l.buf[kept:])
		if err != nil {
			t.Fatal(err)
		}
		got := l.buf[:kept+n]
		if bytes.HasSuffix(got, []byte("\n0\r\n\r\n")) || string(got) == "0\r\n\r\n" {
			return events + bytes.Count(got, []byte("data: "))
		}
		whole := bytes.LastIndexByte(got, '\n') + 1
		events += bytes.Count(got[:whole], []byte("data: "))
		kept = copy(l.buf, got[whole:])
	}
}

// TestTokensCostNoAllocation: from the engine's event through the rules, the clocks and the encoder into a connection, a token costs no allocation where nothing is
// masked: a stream of ten times the words makes no more of them. Before a chunk of more than 255 bytes net/http prints its length, for which it makes
// room of eight bytes: those of a chat are so long.
func TestTokensCostNoAllocation(t *testing.T) {
	few, many, pools := 350, 3500, 0.01
	if testing.Short() { // as under the race detector, which loses every fourth thing that comes back to a pool: net/http prints lengths with such
		few, many, pools = 100, 1000, 0.75
	}
	k, _ := newSpeaking(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // pools stay filled
	for name, c := range map[string]struct {
		path, asked string
		each        float64
	}{
		"completion": {"/v1/completions", `"prompt":"talk"`, 0},
		"chat":       {"/v1/chat/completions", `"messages":[{"role":"user","content":"talk"}]`, 1},
	} {
		made := func(words int) (events int, least uint64) {
			l := newListener(t, k, c.path, c.asked, words)
			least = ^uint64(0)
			for range 4 { // the first makes room
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				events = l.answer(t)
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			return events, least
		}
		some, least := made(few)
		all, most := made(many)
		if some < few*9/10 || all < many*9/10 {
			t.Fatalf("%s: %d and %d events came", name, some, all)
		}
		if each := (float64(most) - float64(least)) / float64(all-some); each > c.each+pools {
			t.Errorf("%s: an event costs %.3f allocations: %d events %d, %d events %d", name, each, some, least, all, most)
		}
	}
}

// TestTokensLeaveAtOnce: a token is in the client's hands before the engine makes the next one, and soon.
func TestTokensLeaveAtOnce(t *testing.T) {
	const words, soon = 100, 25 * time.Millisecond
	k, engine := newSpeaking(t)
	engine.words = strings.Split("今天天气很好", "")
	engine.said, engine.heard = make(chan time.Time), make(chan struct{})
	l := newListener(t, k, "/v1/chat/completions", `"messages":[{"role":"user","content":"talk"}]`, words)
	if _, err := l.Write(l.request); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range words {
		began := <-engine.said
		for came := false; !came; {
			n, err := l.Read(l.buf)
			if err != nil {
				t.Fatalf("after %d tokens: %v", len(took), err)
			}
			came = bytes.Contains(l.buf[:n], []byte("\n\n"))
		}
		took = append(took, time.Since(began))
		engine.heard <- struct{}{}
	}
	if slices.Sort(took); took[words/2] > soon {
		t.Errorf("a token took %v to its client", took[words/2])
	}
}
