package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRawValuesAreNowhere: a resident id and a mobile number go through both ways of answering and through what can go wrong on the
// way. The caller gets them back; the engine, every byte of the data directory, the log and the metrics never have them.
func TestRawValuesAreNowhere(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	key := in.started.Welcome.APIKey.Reveal()
	id, mobile := "11010519491231002X", "13800138000"
	raw := []string{id, mobile, "planted-words"}
	text := fmt.Sprintf("planted-words 身份证 %s，手机 %s。", id, mobile)
	ask := func(extra string) string {
		return `{"model":"scripted"` + extra + `,"messages":[{"role":"user","content":` + quote(text) + `}]}`
	}
	requests := map[string]string{}
	for name, body := range map[string]string{"blocking": ask(""), "streaming": ask(`,"stream":true`)} {
		r := in.send(http.MethodPost, "/v1/chat/completions", key, body)
		got := answerText(t, r.body)
		if r.status != http.StatusOK || got != text {
			t.Errorf("%s: %d, the caller got %q", name, r.status, got)
		}
		requests[name] = r.header.Get("X-Request-Id")
	}
	// What is refused must not leave them either.
	for _, body := range []string{
		ask("")[:90], strings.Replace(ask(""), "scripted", text[:40], 1), ask(`,"n":"` + mobile + `"`), ask(`,"user":"` + mobile + `","metadata":{"a":"` + id + `"}`),
	} {
		in.send(http.MethodPost, "/v1/chat/completions", key, body, "X-Client-Request-Id", "their-id-7")
	}
	in.send(http.MethodPost, "/v1/chat/completions", "planted-words", ask(""))
	in.send(http.MethodGet, "/v1/"+mobile+"?q="+id, key, nil)

	for i, q := range in.scripted.Requests() {
		asked, err := json.Marshal(plain(q))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{id, mobile} {
			if bytes.Contains(asked, []byte(secret)) {
				t.Errorf("engine request %d has %s", i, secret)
			}
		}
	}
	for name, request := range requests {
		admitted := in.records(request, 2)[0]
		got := map[string]int{}
		for _, f := range admitted.Findings {
			got[f.Class+" "+f.Action] += f.Count
		}
		if len(got) != 2 || got["cn_resident_id masked"] != 1 || got["cn_mobile masked"] != 1 {
			t.Errorf("%s: the record has %v", name, got)
		}
	}
	metrics := in.send(http.MethodGet, "/metrics", "", nil).body
	if !bytes.Contains(metrics, []byte("sluice_gateway_requests_total")) {
		t.Fatal("no metrics")
	}
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	sinks := map[string][]byte{"the metrics": metrics, "the log": []byte(in.logs.String())}
	err := filepath.WalkDir(in.cfg.Data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			sinks[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || len(sinks) < 6 {
		t.Fatalf("%d places to look at, %v", len(sinks), err)
	}
	for place, content := range sinks {
		for _, secret := range append(raw, key, in.started.Welcome.AdminPassword.Reveal()) {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s contains %q", place, secret)
			}
		}
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// answerText returns the text of an answer, blocking or streamed.
func answerText(t *testing.T, body []byte) string {
	t.Helper()
	type answer struct {
		Choices []struct{ Message, Delta struct{ Content string } }
	}
	var whole strings.Builder
	if !bytes.HasPrefix(body, []byte("data:")) {
		body = append([]byte("data: "), body...)
	}
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var a answer
		if err := json.Unmarshal(data, &a); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		for _, c := range a.Choices {
			whole.WriteString(c.Message.Content + c.Delta.Content)
		}
	}
	return whole.String()
}
