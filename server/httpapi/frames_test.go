package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
)

func renderers() map[string]func(options) renderer {
	reply := &gateway.Reply{Head: gateway.Head{Request: "0198-\"q\"", Created: time.Unix(1_700_000_000, 0), Model: `a "model"`}}
	return map[string]func(options) renderer{
		"chat":       func(o options) renderer { return chatShape{}.writer(reply, o).(*chunkWriter).renderer },
		"completion": func(o options) renderer { return completionShape{}.writer(reply, o).(*chunkWriter).renderer },
	}
}

func newSSE(t testing.TB, w http.ResponseWriter) *sse {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	c, _ := gin.CreateTestContext(w)
	a := &API{cfg: Config{KeepAlive: time.Hour, WriteTimeout: time.Minute}, log: slog.New(slog.DiscardHandler), now: time.Now}
	c.Set(keyDialect, openAI())
	s := a.stream(c, gateway.Head{})
	t.Cleanup(s.close)
	return s
}

// Chunks that are put together say what encoded ones say, for every text and both endpoints, with several choices in turn.
func TestFramesSayWhatTheEncoderSays(t *testing.T) {
	texts := []string{"a", "“引号”", `"\`, "\n\r\t\b\f\x01\x7f", "<&>\u2028\u2029", "😀", "\x00text\x00", `,"text":`, "\xff half", "end"}
	for name, renderer := range renderers() {
		for _, opt := range []options{{}, {includeUsage: true}} {
			rec := httptest.NewRecorder()
			out, r, plain, frames := newSSE(t, rec), renderer(opt), renderer(opt), frames{}
			var want []any
			for i, text := range append(texts, texts...) {
				ev := engine.Event{Choice: i % 3, Text: text}
				want = append(want, decoded(t, plain.text(ev)))
				ok := onlyText(ev) && frames.send(out, r, ev) || !onlyText(ev) && out.send(r.text(ev))
				if !ok {
					t.Fatal(out.err)
				}
			}
			var got []any
			for events := openai.NewEventReader(rec.Body, 1<<20); ; {
				ev, err := events.Next()
				if err != nil {
					break
				}
				var v any
				if err := json.Unmarshal(ev.Data, &v); err != nil {
					t.Fatalf("%s: %q: %v", name, ev.Data, err)
				}
				got = append(got, v)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n%v\nwant\n%v", name, got, want)
			}
		}
	}
}

func decoded(t *testing.T, v any) (out any) {
	t.Helper()
	j, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(j)).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// discard is a client that takes everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}

func (d discard) SetWriteDeadline(time.Time) error { return nil }

// A token costs the edge no memory once a choice has begun.
func TestTextCostsTheEdgeNoAllocation(t *testing.T) {
	for name, renderer := range renderers() {
		out, r, frames := newSSE(t, discard{http.Header{}}), renderer(options{}), frames{}
		ev := engine.Event{Text: "some 文字"}
		send := func() {
			if !frames.send(out, r, ev) {
				t.Fatal(out.err)
			}
		}
		for range 3 {
			send()
		}
		if n := testing.AllocsPerRun(100, send); n != 0 {
			t.Errorf("%s: %v allocations for a text", name, n)
		}
	}
}

// countingWriter counts what leaves.
type countingWriter struct {
	*httptest.ResponseRecorder

	left []int // events, by flush
	seen int
}

func (w *countingWriter) Flush() {
	n := bytes.Count(w.Body.Bytes(), []byte("\n\n"))
	w.left, w.seen = append(w.left, n-w.seen), n
}

// TestEventsLeaveTogether: the first event leaves at once, later ones with those that have come already, but not with more than a few.
func TestEventsLeaveTogether(t *testing.T) {
	w := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
	out := newSSE(t, w)
	for i := range 22 {
		if !out.raw("", []byte("{}")) || !out.flush(i != 20) {
			t.Fatal(out.err)
		}
	}
	out.mu.Lock()
	out.flushNow()
	out.mu.Unlock()
	if want := []int{1, 8, 8, 4, 1}; !reflect.DeepEqual(w.left, want) {
		t.Errorf("%v, want %v", w.left, want)
	}
}
