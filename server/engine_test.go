package server_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// startChat runs a server with the real small model and a folder of downloads of its own, which it returns.
func startChat(t *testing.T, extra string) (*installation, string) {
	t.Helper()
	return startConfigured(t, fmt.Sprintf("engines: {native: {models: [{id: chat, path: %q}], context_tokens: 256, threads: 2}}\nrag: {embedding_model: \"\"}\n%s",
		testmodel.Path(t, testmodel.SmolLM2), extra))
}

// startConfigured runs a server with a configuration and a folder of downloads of its own, which it returns.
func startConfigured(t *testing.T, text string) (*installation, string) {
	t.Helper()
	in := &installation{t: t, dir: t.TempDir(), logs: &lockedBuffer{}}
	downloads := filepath.Join(in.dir, "downloads")
	file := filepath.Join(in.dir, "sluice.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil, map[string]any{
		"data": filepath.Join(in.dir, "data"), "downloads": downloads, "listen": "127.0.0.1:0", "workflows.enabled": false, "console": false,
		"operations.token": operationsToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	in.run(cfg)
	return in, downloads
}

// writeAdapter writes an adapter of the first down projection of SmolLM2 in the form of PEFT; strength is what its numbers are.
func writeAdapter(t *testing.T, dir string, strength float32) {
	t.Helper()
	const rank, hidden, dim = 2, 1536, 576
	header, body := map[string]any{}, []byte{}
	tensors := map[string][2]int{
		"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight": {rank, hidden},
		"base_model.model.model.layers.0.mlp.down_proj.lora_B.weight": {dim, rank},
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		shape, begin := tensors[name], len(body)
		for i := range shape[0] * shape[1] {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(strength*float32(i%7-3)))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape[:], "data_offsets": []int{begin, len(body)}}
	}
	head, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"adapter_config.json":       []byte(`{"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["down_proj"]}`),
		"adapter_model.safetensors": append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), body...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEngineAPI: the scheduler and its steps can be looked at without seeing text; an adapter that is loaded is a model that callers may
// ask for, under their tenant's name only, recorded with its digest; and it is gone when it was unloaded.
func TestEngineAPI(t *testing.T) {
	in, downloads := startChat(t, "metrics: {vllm_names: true}\n")
	adapters := filepath.Join(downloads, "models", "adapters")
	writeAdapter(t, filepath.Join(adapters, "law"), 0.1)
	writeAdapter(t, filepath.Join(adapters, "tax"), 0.2)
	writeAdapter(t, filepath.Join(in.dir, "outside"), 0.1)
	if err := os.Symlink(filepath.Join(in.dir, "outside"), filepath.Join(adapters, "link")); err != nil {
		t.Fatal(err)
	}

	var scheduler struct {
		Items []struct {
			Model   string
			KVPages int `json:"kv_pages"`
		}
		Instances []adminapi.EngineInstance
	}
	in.admin(http.MethodGet, "/engine/scheduler", nil, &scheduler) // before anything was computed, too
	if len(scheduler.Items) != 1 || scheduler.Items[0].Model != "chat" || scheduler.Items[0].KVPages == 0 {
		t.Errorf("%+v", scheduler)
	}
	if i := scheduler.Instances; len(i) != 1 || i[0].Kind != "native" || i[0].State != "ready" || i[0].ConcurrencyLimit == nil || len(i[0].Models) != 1 ||
		i[0].Models[0].Model != "chat" || i[0].Models[0].KvPages != scheduler.Items[0].KVPages || *i[0].Models[0].KvPageBytes <= 0 {
		t.Errorf("%+v", i)
	}
	ask := func(model string) reply {
		return in.chat(map[string]any{"model": model, "max_tokens": 8, "temperature": 0, "messages": []any{map[string]any{"role": "user", "content": "Name a canary-colour."}}})
	}
	plain := ask("chat")
	if plain.status != http.StatusOK {
		t.Fatalf("%d %s", plain.status, plain.body)
	}
	var steps struct {
		Items []struct {
			Step   int
			Load   map[string]int
			Shares []struct {
				Request string
				Decode  int `json:"decode_tokens"`
				Prefill int `json:"prefill_tokens"`
				Drafts  int `json:"draft_tokens"`
			}
		}
	}
	r := in.admin(http.MethodGet, "/engine/steps", nil, &steps)
	if strings.Contains(string(r.body), "canary") || len(steps.Items) == 0 {
		t.Fatalf("steps: %s", r.body)
	}
	request := plain.header.Get("X-Request-Id")
	for _, s := range steps.Items {
		sum := 0
		for _, share := range s.Shares {
			sum += share.Decode + share.Prefill + share.Drafts
			if share.Request != request {
				t.Errorf("step %d computes for %q, only %q was asked", s.Step, share.Request, request)
			}
		}
		if rows := s.Load["decode_tokens"] + s.Load["prefill_tokens"] + s.Load["draft_tokens"]; sum != rows {
			t.Errorf("step %d: shares of %d tokens, the step has %d", s.Step, sum, rows)
		}
	}
	last := steps.Items[len(steps.Items)-1].Step
	in.admin(http.MethodGet, "/engine/steps?after=0&limit=1", nil, &steps)
	if len(steps.Items) != 1 || steps.Items[0].Step != 1 {
		t.Errorf("the first step: %+v", steps.Items)
	}
	eventually(t, "nothing after the last step", func() bool { // a step is noted behind its tokens, so the answer may be here sooner
		in.admin(http.MethodGet, fmt.Sprintf("/engine/steps?after=%d", last), nil, &steps)
		if n := len(steps.Items); n > 0 {
			if steps.Items[0].Step != last+1 {
				t.Fatalf("behind step %d comes %+v", last, steps.Items[0])
			}
			last = steps.Items[n-1].Step
		}
		return len(steps.Items) == 0
	})

	load := func(body map[string]any, header ...string) reply {
		return in.send(http.MethodPost, "/api/v1/engine/adapters", in.token, body, header...)
	}
	for name, c := range map[string]struct {
		body   map[string]any
		status int
		says   string
	}{
		"absolute":       {map[string]any{"id": "a", "model": "chat", "path": filepath.Join(adapters, "law")}, http.StatusBadRequest, "须位于下载目录"},
		"upwards":        {map[string]any{"id": "a", "model": "chat", "path": "../adapters/law"}, http.StatusBadRequest, "须位于下载目录"},
		"a link outside": {map[string]any{"id": "a", "model": "chat", "path": "link"}, http.StatusBadRequest, "目录之外"},
		"missing":        {map[string]any{"id": "a", "model": "chat", "path": "none"}, http.StatusBadRequest, "没有此文件"},
		"no such model":  {map[string]any{"id": "a", "model": "none", "path": "law"}, http.StatusNotFound, "none"},
		"a model's id":   {map[string]any{"id": "chat", "model": "chat", "path": "law"}, http.StatusConflict, "chat"},
		"a bad id":       {map[string]any{"id": "a b", "model": "chat", "path": "law"}, http.StatusBadRequest, "id"},
		"an unknown key": {map[string]any{"id": "a", "model": "chat", "path": "law", "scale": 2}, http.StatusBadRequest, "scale"},
	} {
		if r := load(c.body, "Accept-Language", "zh"); r.status != c.status || !strings.Contains(string(r.body), c.says) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}

	loaded := load(map[string]any{"id": "law", "model": "chat", "path": "law", "tenants": []string{"demo"}})
	var adapter struct{ Digest string }
	loaded.decode(t, &adapter)
	records := in.records(loaded.header.Get("X-Request-Id"), 2)
	if !strings.Contains(string(records[1].raw), adapter.Digest) || records[1].Action != "admin.loadAdapter" || records[1].Outcome != "ok" {
		t.Errorf("the record of loading: %s", records[1].raw)
	}
	var models struct{ Data []struct{ ID string } }
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "other", "name": "Other"}, new(any))
	stranger := in.issueKey(map[string]any{"name": "stranger", "tenant": "other"}).secret
	in.send(http.MethodGet, "/v1/models", stranger, nil).decode(t, &models)
	if s := fmt.Sprint(models); !strings.Contains(s, "chat") || strings.Contains(s, "law") {
		t.Errorf("another tenant sees %s", s)
	}
	for _, id := range []string{"law", "never-was"} { // what he is told is the same
		r := in.send(http.MethodGet, "/v1/models/"+id, stranger, nil)
		if r.status != http.StatusNotFound {
			t.Errorf("another tenant asks for %s: %d %s", id, r.status, r.body)
		}
		r = in.send(http.MethodPost, "/v1/embeddings", stranger, map[string]any{"model": id, "input": "x"})
		if r.status != http.StatusNotFound || !strings.Contains(string(r.body), "model_not_found") {
			t.Errorf("another tenant asks %s for vectors: %d %s", id, r.status, r.body)
		}
	}
	in.send(http.MethodGet, "/v1/models", in.started.Welcome.APIKey.Reveal(), nil).decode(t, &models)
	if !slices.ContainsFunc(models.Data, func(m struct{ ID string }) bool { return m.ID == "law" }) {
		t.Errorf("the adapter is not listed: %+v", models)
	}
	answer := ask("law")
	if answer.status != http.StatusOK || string(answer.body) == string(plain.body) {
		t.Fatalf("ask the adapter: %d %s", answer.status, answer.body)
	}
	if raw := string(in.records(answer.header.Get("X-Request-Id"), 2)[1].raw); !strings.Contains(raw, adapter.Digest) {
		t.Errorf("the record of an answer does not name the adapter: %s", raw)
	}
	load(map[string]any{"id": "tax", "model": "chat", "path": "tax", "tenants": []string{"other"}}).decode(t, &adapter)
	if r := ask("tax"); r.status != http.StatusNotFound {
		t.Errorf("another tenant's adapter: %d %s", r.status, r.body)
	}

	var metrics string
	eventually(t, "the last step to be counted", func() bool {
		metrics = string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body)
		return strings.Contains(metrics, "\nvllm:num_requests_running{model_name=\"chat\"} 0\n")
	})
	engineMetrics(t, metrics)

	if r := in.admin(http.MethodDelete, "/engine/adapters/law", nil, nil); r.status != http.StatusNoContent {
		t.Errorf("unload: %d %s", r.status, r.body)
	}
	if r := ask("law"); r.status != http.StatusServiceUnavailable {
		t.Errorf("after unloading: %d %s", r.status, r.body)
	}
	if r := load(map[string]any{"id": "law", "model": "chat", "path": "tax"}); r.status != http.StatusConflict || len(strings.Split(string(in.admin(http.MethodGet, "/engine/adapters", nil, nil).body), `"id"`)) != 2 {
		t.Errorf("other weights under a name of records: %d %s", r.status, r.body)
	}
	if r := load(map[string]any{"id": "law", "model": "chat", "path": "law"}); r.status != http.StatusCreated || ask("law").status != http.StatusOK {
		t.Errorf("the same weights again: %d %s", r.status, r.body)
	}
}

// engineMetrics pins the names of the engine's metrics once it has answered, ours and vLLM's, and that theirs say what ours say.
func engineMetrics(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "canary") || strings.Contains(text, "demo") {
		t.Error("the metrics name a tenant or repeat a prompt")
	}
	var lines []string
	for line := range strings.Lines(metricNames(t, text)) {
		if strings.HasPrefix(line, "sluice_engine_") {
			lines = append(lines, line)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (vllm:\S+ \S+)$`).FindAllStringSubmatch(text, -1) {
		lines = append(lines, m[1]+"\n")
	}
	const file = "testdata/metrics-engine.golden"
	got := strings.Join(lines, "")
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("the engine's metrics differ from %s (%v); if that is meant, run with SLUICE_UPDATE=1 and tell the users in CHANGELOG.md. Now:\n%s", file, err, got)
	}
	value := func(series string) float64 {
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, series+" "); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		t.Errorf("there is no %s", series)
		return -1
	}
	const model = `{model_name="chat"}`
	for _, c := range []struct {
		theirs string
		want   float64
	}{
		{"vllm:generation_tokens_total" + model, value(`sluice_engine_tokens_total{phase="completion"}`)},
		{"vllm:prompt_tokens_total" + model, value(`sluice_engine_tokens_total{phase="prompt"}`) + value(`sluice_engine_tokens_total{phase="cached"}`)},
		{"vllm:kv_cache_usage_perc" + model, value(`sluice_engine_kv_usage_ratio{model="chat"}`)},
		{"vllm:time_to_first_token_seconds_count" + model, 2},
		{"vllm:time_to_first_token_seconds_sum" + model, value(`sluice_engine_time_to_first_token_seconds_sum{class="standard"}`)},
		{`vllm:time_to_first_token_seconds_bucket{model_name="chat",le="300"}`, 2},
		{`vllm:request_success_total{finished_reason="length",model_name="chat"}`, 2},
		{"vllm:num_requests_running" + model, 0},
		{"vllm:iteration_tokens_total_count" + model, value("sluice_engine_step_tokens_count")},
	} {
		if got := value(c.theirs); got != c.want {
			t.Errorf("%s is %v, ours %v", c.theirs, got, c.want)
		}
	}
}
