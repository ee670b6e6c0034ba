package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
)

// TestRawValuesAreNowhere: a resident id and a mobile number go through both ways of answering and through what can go wrong on the
// way, whether the policy has texts kept or not. The caller gets them back; the engine, every byte of the data directory, the log and the
// metrics never have them. What is kept can be read with the master key, and kept masked it has no value either.
func TestRawValuesAreNowhere(t *testing.T) {
	t.Parallel()
	for _, record := range []string{"none", "masked", "clear"} {
		t.Run(record, func(t *testing.T) {
			t.Parallel()
			rawValuesAreNowhere(t, record)
		})
	}
}

func rawValuesAreNowhere(t *testing.T, record string) {
	const brought = "13912345678" // the engine comes up with it, and the default policy lets answers show it
	in := start(t, setup{plan: func(_ int, req *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{req.Messages[len(req.Messages)-1].Content + brought}}
	}})
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": keepPolicy(record)}, new(any))
	key := in.started.Welcome.APIKey.Reveal()
	id, mobile := "11010519491231002X", "13800138000"
	raw := []string{id, mobile, brought, "planted-words", "planted-person"}
	text := fmt.Sprintf("planted-words 身份证 %s，手机 %s。", id, mobile)
	ask := func(extra string) string {
		return `{"model":"scripted"` + extra + `,"messages":[{"role":"user","content":` + quote(text) + `}]}`
	}
	requests := map[string]string{}
	for name, body := range map[string]string{"blocking": ask(""), "streaming": ask(`,"stream":true`)} {
		r := in.send(http.MethodPost, "/v1/chat/completions", key, body, "X-Sluice-On-Behalf-Of", "planted-person")
		got := answerText(t, r.body)
		if r.status != http.StatusOK || got != text+brought {
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
		if len(got) != 2 || got["cn_resident_id token"] != 1 || got["cn_mobile token"] != 1 {
			t.Errorf("%s: the record has %v", name, got)
		}
	}
	metrics := in.send(http.MethodGet, "/metrics", operationsToken, nil).body
	if !bytes.Contains(metrics, []byte("sluice_gateway_requests_total")) {
		t.Fatal("no metrics")
	}
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	sinks := in.sinks(metrics)
	in.checkKept(record, requests, text, brought)
	for place, content := range sinks {
		for _, secret := range append(raw, key, in.started.Welcome.AdminPassword.Reveal()) {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s contains %q", place, secret)
			}
		}
	}
}

// sinks returns what a stopped server has left: its log, its metrics and every file of its data directory.
func (in *installation) sinks(metrics []byte) map[string][]byte {
	in.t.Helper()
	sinks := map[string][]byte{"the metrics": metrics, "the log": []byte(in.logs.String())}
	err := filepath.WalkDir(in.cfg.Data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			sinks[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || len(sinks) < 6 {
		in.t.Fatalf("%d places to look at, %v", len(sinks), err)
	}
	return sinks
}

// keepPolicy is the default policy, which keeps texts as record says.
func keepPolicy(record string) string {
	return "schema: 2\nname: keeps\nmodels: [\"*\"]\ncollections: [\"*\"]\nrecord: " + record + `
entities:
  default: {request: token, passage: token, answer: observe}
  api_secret: {answer: redact}
`
}

// checkKept reads what a stopped server has kept of the answered requests.
func (in *installation) checkKept(record string, requests map[string]string, text, brought string) {
	in.t.Helper()
	keys, err := keyring.Open(in.cfg.MasterKeyFile)
	if err != nil {
		in.t.Fatal(err)
	}
	db, err := database.Open(in.t.Context(), in.cfg.Database)
	if err != nil {
		in.t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	log, err := audit.Open(in.cfg.Audit.Config, db, keys, nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		in.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	for name, request := range requests {
		page, err := log.Search(in.t.Context(), search.Query{Request: request})
		if err != nil || len(page.Events) != 2 {
			in.t.Fatalf("%s: %d records, %v", name, len(page.Events), err)
		}
		got := map[string]string{}
		for _, e := range page.Events {
			texts, err := log.Contents(in.t.Context(), e.ID)
			if err != nil {
				in.t.Fatal(err)
			}
			for _, k := range texts {
				got[string(e.Stage)+" "+k.Direction+" "+k.Form] = k.Text
			}
		}
		switch record {
		case "none":
			if len(got) != 0 {
				in.t.Errorf("%s: kept %q", name, got)
			}
		case "clear":
			if len(got) != 2 || got["admitted request clear"] != "user\x00"+text+"\x00" || got["outcome answer clear"] != text+brought {
				in.t.Errorf("%s: kept %q", name, got)
			}
		default:
			masked := regexp.MustCompile(`⟦[^⟧]+⟧`)
			blank := func(s string) string { return masked.ReplaceAllString(s, "⟦⟧") }
			want := "planted-words 身份证 ⟦⟧，手机 ⟦⟧。"
			if len(got) != 2 || blank(got["admitted request masked"]) != "user\x00"+want+"\x00" || blank(got["outcome answer masked"]) != want+"〔已屏蔽:手机〕" {
				in.t.Errorf("%s: kept %q", name, got)
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
