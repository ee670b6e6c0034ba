package httpapi

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/gateway/batch"
)

// TestLineAnswerIsBounded: an answer of the size that is kept is one; a byte more makes it a refusal that says so, however the handler takes that.
func TestLineAnswerIsBounded(t *testing.T) {
	k := newEdge(t, Config{}, nil, nothing)
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for extra, want := range map[int]int{0: http.StatusOK, 1: http.StatusRequestEntityTooLarge} {
		ask := k.api.Asker(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range maxLineAnswer / len(piece) {
				_, _ = w.Write(piece)
			}
			if _, err := w.Write(piece[:extra]); (err != nil) != (extra > 0) {
				t.Errorf("%d more: %v", extra, err)
			}
			_, _ = w.Write(nil)
		}))
		r := ask(t.Context(), batch.Request{ID: "batch_1.1", Batch: "batch_1", Endpoint: "/v1/embeddings", Source: "192.0.2.1", Language: "en"})
		if r.Status != want || extra > 0 && !strings.Contains(string(r.Body), `"code":"answer_too_large"`) || extra == 0 && len(r.Body) != maxLineAnswer {
			t.Errorf("%d more: %d, %d bytes", extra, r.Status, len(r.Body))
		}
	}
}

// TestLineIsCutInItsDialect: a line whose answer breaks off is refused in the words of its endpoint.
func TestLineIsCutInItsDialect(t *testing.T) {
	k := newEdge(t, Config{}, nil, nothing)
	ask := k.api.Asker(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for endpoint, shape := range map[string]func(string) (string, string){"/v1/messages": refusals[dialectAnthropic], "/v1/chat/completions": refusals[dialectOpenAI]} {
		r := ask(t.Context(), batch.Request{ID: "batch_1.1", Batch: "batch_1", Endpoint: endpoint, Source: "192.0.2.1", Language: "en"})
		if code, _ := shape(string(r.Body)); code != "internal_error" || r.Status != http.StatusInternalServerError || strings.HasPrefix(string(r.Body), `{"type":"error"`) != (endpoint == "/v1/messages") {
			t.Errorf("%s: %d %s", endpoint, r.Status, r.Body)
		}
	}
}
