package profile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/profile"
)

func set(t *testing.T, paths ...string) *profile.Set {
	t.Helper()
	s, err := profile.New(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestProfilesAreClean: nothing is wrong with any profile of the program.
func TestProfilesAreClean(t *testing.T) {
	s := set(t)
	for _, name := range s.Names() {
		for _, err := range s.Lint(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// small is a profile that is clean.
const small = `
profile: small
title: Small
extends: openai
family: openai
kind: engine
basis: documented
sources: {book: {url: "https://example.com/manual", date: "2026-11-26"}}
health: {ready: {path: /ok, source: book}}
quirks: [{says: {en: It is small., zh: 它很小。}, source: book}]
`

func TestInheritance(t *testing.T) {
	s := set(t)
	p, err := s.Parse([]byte(small + "endpoints: {embeddings: null, source: book}\nstream: {finish: {enough: length}, source: book}\nmodels: {path: /list}\n"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := s.Get("openai")
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case p.Endpoints.Chat != base.Endpoints.Chat || p.Endpoints.Embeddings != "" || p.Endpoints.Base != "/v1":
		t.Errorf("%+v", p.Endpoints)
	case p.Stream.Finish["enough"] != "length" || p.Stream.Finish["stop"] != "stop":
		t.Errorf("%v", p.Stream.Finish)
	case p.Models.Path != "/list" || p.Models.List != "data":
		t.Errorf("%+v", p.Models)
	case len(p.Systems) > 0 || p.Title != "Small" || len(p.Sources) != 3 || len(p.Quirks) != 1:
		t.Errorf("%+v", p)
	case p.Digest() == base.Digest() || !strings.HasPrefix(p.Digest(), "sha256:"):
		t.Error(p.Digest())
	}
	again, err := s.Parse([]byte(small))
	if err != nil || again.Digest() == p.Digest() {
		t.Errorf("another file has the digest %s, %v", again.Digest(), err)
	}
}

// TestLintFinds: each thing that may be wrong with a profile is told.
func TestLintFinds(t *testing.T) {
	s := set(t)
	if p, err := s.Parse([]byte(small)); err != nil || len(p.Lint()) > 0 {
		t.Fatalf("%v, %v", err, p.Lint())
	}
	for change, want := range map[string]string{
		"paths: {}":            "not found",
		"title: Again":         "already",
		"kind: ship":           "",
		"extends: nobody":      "",
		"rerank_scores: stars": "rerank_scores",
		"cloud: true":          "cloud",
		"ran: [{grade: E2, version: a, date: \"2026-11-26\", test: T}]":                  "ran[0]",
		"endpoints: {chat: /elsewhere}":                                                  "must begin with the base",
		"endpoints: {generate: /generate, source: book}":                                 "belong together",
		"endpoints: {generate: /g, form: song}":                                          "endpoints.form",
		"version: {path: /version}":                                                      "version.source",
		"drain: {path: /stop, source: page}":                                             `no source "page"`,
		"drain: {path: /stop, port: back, source: book}":                                 "drain.port",
		"stream: {finish: {done: finished}}":                                             "stream.finish.done",
		"stream: {framing: morse}":                                                       "stream.framing",
		"request: {regex: {name: r, as: poem}}":                                          "request.regex.as",
		"request: {named_tool: any}":                                                     "named_tool",
		"metrics: {path: /metrics, source: book}":                                        "metrics.format",
		"metrics: {path: /m, format: prometheus, source: book, map: {speed: {name: a}}}": "no such metric",
		"metrics: {path: /m, format: prometheus, source: book, map: {requests_running: {name: a, scale: -1}}}":      "scale",
		"metrics: {path: /m, format: prometheus, source: book, map: {prompt_tokens_total: {name: a, form: gauge}}}": "not told by",
		"errors: {rules: [{status: [200], fault: upstream_failed}]}":                                                "no status of an error",
		"errors: {rules: [{fault: upstream_failed}]}":                                                               "match everything",
		"errors: {rules: [{status: [400], fault: bad_luck}]}":                                                       "fault",
		"errors: {overload: 200}":                                                      "errors.overload",
		"contract: {features: {fly: claimed}}":                                         "no feature",
		"contract: {features: {sampling.top_k: claimed}}":                              "no field of request",
		"contract: {features: {tools: validated}}":                                     "bears out no more",
		"contract: {features: {drain: claimed}}":                                       "nothing says how",
		"contract: {features: {tools: {status: claimed, grade: E1, when: 'batch <'}}}": "condition",
		"a: &b 1": "anchors",
	} {
		text := small + change + "\n"
		if key, _, _ := strings.Cut(change, ":"); key == "kind" || key == "extends" {
			text = strings.Replace(small, key+": "+map[string]string{"kind": "engine", "extends": "openai"}[key], change, 1)
			want = key
		}
		p, err := s.Parse([]byte(text))
		errs := []error{err}
		if err == nil {
			errs = p.Lint()
		}
		if !slices.ContainsFunc(errs, func(err error) bool { return err != nil && strings.Contains(err.Error(), want) }) {
			t.Errorf("%s: %v, want %q", change, errs, want)
		}
	}
}

func TestFurtherFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("small.yaml", small)
	write("smaller.yaml", strings.NewReplacer("profile: small", "profile: smaller", "extends: openai", "extends: small").Replace(small))
	s := set(t, dir)
	if p, err := s.Get("smaller"); err != nil || p.Health.Ready.Path != "/ok" || !s.Has("vllm") || !slices.Contains(s.Names(), "small") {
		t.Errorf("%+v, %v", p, err)
	}
	for name, path := range map[string]string{
		"taken": write("vllm.yaml", small), "misnamed": write("other.yaml", small), "dirty": write("dirty.yaml", strings.Replace(small, "profile: small", "profile: dirty", 1)+"rerank_scores: stars\n"),
		"circle": write("circle.yaml", strings.NewReplacer("profile: small", "profile: circle", "extends: openai", "extends: circle").Replace(small)), "absent": filepath.Join(dir, "absent.yaml"),
		"own parent": write("x.yaml", strings.NewReplacer("profile: small", "profile: y", "extends: openai", "extends: x").Replace(small)),
	} {
		if _, err := profile.New(path); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	a := write("a.yaml", strings.NewReplacer("profile: small", "profile: c", "extends: openai", "extends: b").Replace(small))
	b := write("b.yaml", strings.NewReplacer("profile: small", "profile: d", "extends: openai", "extends: a").Replace(small))
	if _, err := profile.New(a, b); err == nil || !strings.Contains(err.Error(), "extends itself") {
		t.Errorf("two misnamed files that extend each other: %v", err)
	}
	for _, name := range []string{"../openai", "OPENAI", "", "no..dots"} {
		if s.Has(name) {
			t.Errorf("there is a profile %q", name)
		}
	}
}

// TestRoadmapIsNeverRoutable: no profile lets a feature be used that is on a roadmap, and one whose dialect is assumed lets none.
func TestRoadmapIsNeverRoutable(t *testing.T) {
	s := set(t)
	roadmaps := 0
	for _, name := range s.Names() {
		p, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		c := p.Contract()
		for _, f := range capability.Features() {
			cell, ok := p.Claimed.Features[f]
			met, _ := c.Meets(capability.Needs{Features: []capability.Feature{f}}, capability.State{"batch": "1", "mode": "eager"})
			if met && (!ok || cell.Status == capability.Roadmap || p.Basis == profile.Assumed) {
				t.Errorf("%s: %s may be used", name, f)
			}
			if ok && cell.Status == capability.Roadmap {
				roadmaps++
			}
			if ok && c.Features[f].Grade > capability.E1 {
				t.Errorf("%s: %s is believed at %s by a file", name, f, c.Features[f].Grade)
			}
		}
	}
	if roadmaps == 0 {
		t.Error("no profile has a roadmap: the test tries nothing")
	}
}

// systems are those that the product promises to know.
func systems() []string {
	return strings.Split("vLLM|vLLM-Ascend|vLLM-MLU|vLLM-MUSA|vLLM-MTT|vLLM-MetaX|vLLM-Kunlun|vLLM-GCU|vLLM-HUST|EngineX-Biren vLLM|Aphrodite|vAttention|SGLang|SGLang Ascend|"+
		"MindIE (Ascend)|MindIE MS Controller / Coordinator, MindIE Server (P and D)|LMDeploy (TurboMind)|FastDeploy (PaddlePaddle)|PaddleNLP LLM Server|xLLM|Chitu|LightLLM|MagicMind|CNServing|"+
		"IxRT|IGIE|TensorRT-LLM|Triton|Dynamo|Ray Serve|KServe|KServe-style v2|DeepSpeed-FastGen|llama.cpp server|Ollama|Text Generation Inference (TGI)|LoRAX (Lorax)|MLC-LLM|ExLlamaV2|mistral.rs|"+
		"KTransformers|PowerInfer|bitnet.cpp|MAX|LitGPT|OpenLLM|Unsloth|FastChat|generic OpenAI|Xinference|GPUStack|Friendli|Fireworks|Groq|Together|PAI|Qianfan|OmniServe|"+
		"FastDeploy-Enflame|FastDeploy-Iluvatar|FastDeploy-Hygon DCU (K100-AI)|Xinference VACC|DLInfer (DeepLink)", "|")
}

// TestSystemsHaveProfiles: each system of the list has a profile by its title or among its systems.
func TestSystemsHaveProfiles(t *testing.T) {
	s := set(t)
	known := map[string]string{}
	for _, name := range s.Names() {
		p, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, system := range append(p.Systems, p.Title) {
			if other := known[system]; other != "" && other != name {
				t.Errorf("%s is that of %s and of %s", system, other, name)
			}
			known[system] = name
		}
	}
	for _, system := range systems() {
		if known[system] == "" {
			t.Errorf("%s has no profile", system)
		}
	}
}

func TestRefusals(t *testing.T) {
	s := set(t)
	for _, c := range []struct {
		profile, body, header, want string
		status                      int
		format                      bool
	}{
		{"openai", `{"error":{"code":"context_length_exceeded"}}`, "", "context_length_exceeded", 400, false},
		{"openai", `{"error":{"message":"This model's maximum context length is 4"}}`, "", "context_length_exceeded", 400, false},
		{"openai", `{"error":{"message":"bad Schema"}}`, "", "response_format", 400, true},
		{"openai", `{"error":{"message":"bad schema"}}`, "", "upstream_failed", 400, false},
		{"openai", ``, "3", "engine_overloaded", 503, false},
		{"openai", ``, "", "engine_unavailable", 503, false},
		{"sglang", `{"object":"error","message":"x","type":"BadRequest","code":404}`, "", "model_not_found", 404, false},
		{"tgi", `{"error":"Model is overloaded","error_type":"overloaded"}`, "", "engine_overloaded", 429, false},
		{"tgi", "{\"error\":\"`inputs` tokens + `max_new_tokens` must be <= 4096\",\"error_type\":\"validation\"}", "", "context_length_exceeded", 422, false},
		{"chitu", `{"detail":"maximum context length"}`, "", "context_length_exceeded", 400, false},
		{"kserve-v2", `{"error":"no"}`, "", "model_not_found", 404, false},
	} {
		p, err := s.Get(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		r := p.Errors.ReadRefusal(c.status, map[string][]string{"Retry-After": {c.header}}, []byte(c.body))
		if r.Format = c.format; p.Errors.Fault(r) != c.want {
			t.Errorf("%s %d %s: %s, want %s", c.profile, c.status, c.body, p.Errors.Fault(r), c.want)
		}
	}
}
