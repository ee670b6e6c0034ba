package remote

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameAsJSON reads data in place and by encoding/json, after a chunk that must leave nothing behind.
func sameAsJSON(t *testing.T, data string) {
	t.Helper()
	var got streamChunk
	if err := got.decode([]byte(`{"model":"m","choices":[{"index":1,"text":"t","delta":{"content":"c","reasoning":"r"},"finish_reason":"stop"},{},{}],"usage":{"prompt_tokens":3}}`)); err != nil {
		t.Fatal(err)
	}
	err := got.decode([]byte(data))
	var want streamChunk
	wantErr := json.Unmarshal([]byte(data), &want)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, encoding/json says %v", data, err, wantErr)
	}
	if err != nil {
		return
	}
	for _, c := range [][]chunkChoice{want.Choices, got.Choices} { // a null is no log-probabilities, and so is nothing
		for i := range c {
			if string(c[i].Logprobs) == "null" {
				c[i].Logprobs = nil
			}
		}
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("%q:\n%s", data, d)
	}
}

var chunks = []string{
	`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`,
	`{"choices":[{"index":2,"delta":{"content":"a\n\u4f60\ud83d\ude00"}},{"index":11,"text":"b","logprobs":{"tokens":["b"]},"finish_reason":"length"}]}`,
	`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`,
	`{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"r","refusal":"no"},"finish_reason":"stop"}]}`,
	`{"choices":[{"index":0,"text":"a","finish_reason":"stop","stop_reason":"。","matched_stop":null}]}`,
	`{"choices":[{"index":0,"text":"a","finish_reason":"stop","matched_stop":151645}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":{"a":1}},"tool_calls":null}}]}`,
	`{"choices":[{"Index":1,"DELTA":{"Content":"x"}}]}`, `{"choices":[{"index":1,"index":2,"text":"a","text":"b"}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"delta":{"reasoning":"b"}}]}`, `{"\u006dodel":"x","choi\u0063es":[{}]}`,
	`{"choices":[{"index":"0"}]}`, `{"choices":[{"index":-1}]}`, `{"choices":[{"index":1.5}]}`, `{"choices":[{"index":00}]}`, `{"choices":[{"index":1e1}]}`,
	`{"choices":[null]}`, `{"choices":null}`, `{"choices":{}}`, `{"choices":"x"}`, `{"choices":[{"delta":null,"message":null}]}`, `{"choices":[{"delta":[]}]}`,
	`{"choices":[{"delta":{"content":7}}]}`, `{"model":7}`, `{"error":{"message":"m"}}`, `{"error":"x"}`, `null`, `[]`, `7`, `""`, ``, ` { } `, `{"a":`, `{} x`, "{\"model\":\"\xff\"}",
	`{"model":"m","ſ":1,"choiceſ":[{"index":3}]}`, `{"Key":1,"model":null,"usage":{"prompt_tokens":"x"}}`, `{"choices":[{"text":"\ud800"}]}`, `{"choices":[{"text":"\ud800x\udc00"}]}`,
}

func TestChunksAsEncodingJSONReadsThem(t *testing.T) {
	for _, c := range chunks {
		sameAsJSON(t, c)
	}
}

func FuzzChunk(f *testing.F) {
	for _, c := range chunks {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, s string) { sameAsJSON(t, s) })
}

// A chunk of text costs its own copy and the place of its text.
func TestChunksCostLittle(t *testing.T) {
	data := []byte(`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"文字"},"logprobs":null,"finish_reason":null}]}`)
	var c streamChunk
	if n := testing.AllocsPerRun(100, func() { _ = c.decode(data) }); n > 2 {
		t.Errorf("%v allocations for a chunk of text", n)
	}
}

func BenchmarkChunk(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-1234567890","object":"chat.completion.chunk","created":1700000000,"model":"scripted","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}`)
	b.Run("in place", func(b *testing.B) {
		b.ReportAllocs()
		var c streamChunk
		for b.Loop() {
			_ = c.decode(data)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c streamChunk
			_ = json.Unmarshal(data, &c)
		}
	})
}

// TestWhichStopString: servers name the stop string that ended a choice, or the number of a token, under names of their own.
func TestWhichStopString(t *testing.T) {
	stops := []string{"甲", "\n\n"}
	for said, want := range map[string]int{
		`"stop_reason":"\n\n"`: 2, `"matched_stop":"\u7532"`: 1, `"stop_reason":151645`: 0, `"stop_reason":null,"matched_stop":"甲"`: 1, `"stop_reason":"丙"`: 0, `"text":"x"`: 0,
	} {
		var c streamChunk
		if err := c.decode([]byte(`{"choices":[{"finish_reason":"stop",` + said + `}]}`)); err != nil || c.Choices[0].stoppedBy(stops) != want {
			t.Errorf("%s: %v, by %d, want %d", said, err, c.Choices[0].stoppedBy(stops), want)
		}
	}
}
