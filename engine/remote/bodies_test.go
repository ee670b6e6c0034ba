package remote

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
)

var updateBodies = flag.Bool("update-bodies", false, "write testdata/bodies.golden")

// anyRequest makes a request with some fields set.
func anyRequest(r *rand.Rand) *engine.Request {
	some := func() bool { return r.IntN(3) == 0 }
	q := &engine.Request{Model: "chat", Prompt: "a <b> & \u2028 \"c\"", Logprobs: -1, Temperature: float64(r.IntN(3)) / 2, NonStreaming: some()}
	set := []func(){
		func() { q.MaxTokens = 1 + r.IntN(9) }, func() { q.MinTokens = 1 + r.IntN(3) }, func() { q.Choices = r.IntN(4) }, func() { q.Echo = true },
		func() { q.TopP = .25 }, func() { q.TopK = 1 + r.IntN(9) }, func() { q.MinP = .125 }, func() { q.RepetitionPenalty = float64(r.IntN(3)) },
		func() { q.FrequencyPenalty = -.5 }, func() { q.PresencePenalty = 1.5 }, func() { q.LogitBias = map[int32]float64{7: 1, 12: -100} },
		func() { s := r.Uint64(); q.Seed = &s }, func() { q.Stop = []string{"<end>", "b"} }, func() { q.Logprobs = r.IntN(4) },
		func() {
			q.Format = []*engine.Format{
				{JSONObject: true}, {JSONSchema: json.RawMessage(`{ "type" : "object" }`)}, {Regex: "a<b"}, {GBNF: "root ::= \"a\""}, {Choice: []string{"a\"b", "c\\\n"}},
			}[r.IntN(5)]
		},
	}
	for _, f := range set {
		if some() {
			f()
		}
	}
	if some() {
		return q
	}
	q.Prompt, q.Messages = "", []engine.Message{
		{Role: "user", Content: "u<", Name: "n"}, {Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "c", Name: "f", Arguments: `{"x":1}`}}}, {Role: "tool", Content: "r", ToolCallID: "c"},
	}
	if some() {
		q.Tools = []engine.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: some()}, {Name: "g"}}
		q.ParallelTools = some()
		q.ToolChoice = []engine.ToolChoice{{}, {Mode: engine.ToolAuto}, {Mode: engine.ToolRequired}, {Mode: engine.ToolFunction, Name: "g"}, {Mode: engine.ToolFunction, Name: "h"}}[r.IntN(5)]
	}
	return q
}

// TestBodiesStay: requests of the dialects that there were before there were profiles are the same, byte for byte.
func TestBodiesStay(t *testing.T) {
	var out strings.Builder
	r := rand.New(rand.NewPCG(5, 6))
	kinds, known := map[string]int{}, dialects{}
	for i := range 3000 {
		q := anyRequest(r)
		for _, dialect := range []string{"", "openai", "vllm", "llama.cpp"} {
			m := ModelConfig{ID: "chat", Upstream: "up", Dialect: dialect, Logprobs: i%7 != 0, Tools: i%11 != 0, Formats: i%13 != 0, Sampling: i%5 != 0}
			path, body, err := known.wire(t, m, q)
			line := fmt.Sprint(err)
			if err == nil {
				j, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				line = path + " " + string(j)
				kinds[dialect+" sent"]++
			} else {
				kinds[dialect+" refused"]++
			}
			if i < 40 {
				fmt.Fprintf(&out, "%d %s: %s\n", i, dialect, line)
			} else {
				fmt.Fprintf(&out, "%x\n", sha256.Sum256([]byte(line)))
			}
		}
	}
	for _, d := range []string{" sent", " refused", "vllm sent", "vllm refused", "llama.cpp sent", "llama.cpp refused"} {
		if kinds[d] < 200 {
			t.Errorf("%s: %d", d, kinds[d])
		}
	}
	sum := sha256.Sum256([]byte(out.String()))
	short := out.String()[:strings.Index(out.String(), "\n39 ")] + fmt.Sprintf("\nsha256 of all: %x\n", sum)
	const golden = "testdata/bodies.golden"
	if *updateBodies {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(short), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if short != string(want) {
		got := strings.Split(short, "\n")
		for i, line := range strings.Split(string(want), "\n") {
			if i >= len(got) || got[i] != line {
				t.Fatalf("line %d\nwas %s\n is %s", i, line, got[min(i, len(got)-1)])
			}
		}
	}
}
