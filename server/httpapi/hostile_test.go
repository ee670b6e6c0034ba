package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/openai"
)

// TestHostileUpstreams: deltas of a megabyte, very many of one byte, bytes that are no text, and JSON that is too deep end in bounded time in
// an answer without a value, or in an error event.
func TestHostileUpstreams(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "redact")
	const size = 600_000
	many := 100_000
	if !long() {
		many = 20_000
	}
	chat, tools := surfaces()["content"], surfaces()["arguments"]
	delta := func(s string) string { return `{"choices":[{"delta":{"content":"` + s + `"}}]}` }
	args := func(s string) []string {
		return []string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"dial","arguments":"` + s + `"}}]}}]}`}
	}
	const end = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	for name, c := range map[string]struct {
		surface surface
		chunks  []string
		runes   int // of the answer; -1: it fails
	}{
		"prose":          {chat, []string{delta(strings.Repeat("今天天气很好。", size/21))}, size / 21 * 7},
		"a long number":  {chat, []string{delta(strings.Repeat("7", size))}, size},
		"names":          {chat, []string{delta(strings.Repeat("张", size/3))}, 0},
		"marks":          {chat, []string{delta(strings.Repeat("⟦", size/3))}, size/3 - 1}, // the last one may be the beginning of a pseudonym
		"single bytes":   {chat, strings.Split(strings.Repeat(delta("好")+"\n", many-1)+delta("好"), "\n"), many},
		"single digits":  {chat, strings.Split(strings.Repeat(delta("1")+"\n", many-1)+delta("1"), "\n"), 0},
		"no characters":  {chat, []string{delta("a\xff\xe4b"), delta("\xbd\xa0"), delta(`\ud83d`), delta(`\ude00`)}, 8},
		"deep arguments": {tools, args(`{\"a\":` + strings.Repeat("[", size)), -1},
		"deep but well":  {tools, append(args(`{\"a\":`+strings.Repeat("[", 900)+strings.Repeat("]", 900)+`}`), `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`), 0},
		"many keys":      {tools, append(args(`{`+strings.Repeat(`\"张三\":\"`+broughtValue+`\",`, 10_000)+`\"a\":1}`), `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`), 0},
	} {
		m.upstream.says(func(string) string { return stream(append(c.chunks, end)...) })
		began := time.Now()
		resp, body := m.post(t, c.surface.path, c.surface.request(true, ""))
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
		if resp.StatusCode != http.StatusOK && c.runes >= 0 || strings.Contains(body, broughtValue) {
			t.Errorf("%s: %d %.300s", name, resp.StatusCode, body)
			continue
		}
		if c.runes < 0 {
			if !strings.Contains(body, `"error":{`) || strings.Contains(body, openai.Done) {
				t.Errorf("%s: %.300s", name, body)
			}
			continue
		}
		evs := events(t, body)
		if evs[len(evs)-1] != openai.Done {
			t.Errorf("%s: the stream ends with %.300s", name, evs[len(evs)-1])
			continue
		}
		if got := len([]rune(whole(t, body)[0].Content)); c.runes > 0 && got != c.runes {
			t.Errorf("%s: %d characters came, want %d", name, got, c.runes)
		}
	}
}
