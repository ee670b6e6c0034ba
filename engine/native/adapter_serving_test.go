package native

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/fault"
)

// tinyAdapter writes an adapter of the tiny model in the form of peft and returns its folder. Strength is what its numbers are.
func tinyAdapter(t testing.TB, rank int, strength float32) string {
	t.Helper()
	header, body := map[string]any{}, []byte{}
	tensors := map[string][2]int{
		"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight": {rank, tinyHidden},
		"base_model.model.model.layers.0.mlp.down_proj.lora_B.weight": {tinyDim, rank},
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
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"adapter_config.json":       []byte(`{"peft_type":"LORA","r":` + string(rune('0'+rank)) + `,"lora_alpha":8,"target_modules":["down_proj"]}`),
		"adapter_model.safetensors": append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...), body...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func babble(t testing.TB, e *Engine, model engine.ModelID, tenant string) (string, error) {
	t.Helper()
	var text strings.Builder
	for ev, err := range enginetest.Ask(t.Context(), e, &engine.Request{Model: model, Tenant: tenant, Prompt: "hello", MaxTokens: 24, MinTokens: 24}) {
		if err != nil {
			return "", err
		}
		text.WriteString(ev.Text)
	}
	return text.String(), nil
}

// An adapter comes and goes while its model answers: listed with its digest, open to its tenants alone, and changing nobody else's text.
func TestAdaptersComeAndGo(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q8_0), Config{})
	plain, err := babble(t, e, tinyID, "")
	if err != nil {
		t.Fatal(err)
	}
	path := tinyAdapter(t, 4, 0.5)
	loaded, err := e.LoadAdapter(AdapterConfig{ID: "law", Model: tinyID, Path: path, Tenants: []string{"acme"}})
	if err != nil || loaded.Digest == "" || loaded.Bytes == 0 || len(e.Adapters()) != 1 || e.Adapters()[0].ID != "law" {
		t.Fatalf("%+v, %v", loaded, err)
	}
	models, err := e.Models(t.Context())
	if err != nil || len(models) != 2 || models[0].Base != tinyID || models[0].Adapter != loaded.Digest {
		t.Errorf("%+v, %v", models, err)
	}
	changed, err := babble(t, e, "law", "acme")
	if err != nil || changed == plain {
		t.Errorf("the adapter changes nothing: %v", err)
	}
	for _, tenant := range []string{"", "globex"} {
		if _, err := babble(t, e, "law", tenant); !fault.Is(err, fault.CodeModelNotFound) {
			t.Errorf("another tenant %q: %v", tenant, err)
		}
	}
	if again, err := babble(t, e, tinyID, ""); err != nil || again != plain {
		t.Errorf("the model itself has changed: %v", err)
	}
	for name, c := range map[string]struct {
		cfg  AdapterConfig
		code fault.Code
		says string
	}{
		"its id is taken":       {AdapterConfig{ID: "law", Model: tinyID, Path: path}, fault.CodeExists, ""},
		"a model's id":          {AdapterConfig{ID: tinyID, Model: tinyID, Path: path}, fault.CodeExists, ""},
		"of no model":           {AdapterConfig{ID: "b", Model: "none", Path: path}, fault.CodeModelNotFound, ""},
		"of an adapter":         {AdapterConfig{ID: "b", Model: "law", Path: path}, fault.CodeModelNotFound, ""},
		"no such file":          {AdapterConfig{ID: "b", Model: tinyID, Path: filepath.Join(path, "none")}, fault.CodeInvalidValue, "no such file"},
		"a file of another use": {AdapterConfig{ID: "b", Model: tinyID, Path: filepath.Join(path, "adapter_config.json")}, fault.CodeInvalidValue, "give the directory"},
	} {
		_, err := e.LoadAdapter(c.cfg)
		if !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if public := fault.Public(err); strings.Contains(public.Message(fault.English)+public.Message(fault.Chinese), filepath.Dir(path)) {
			t.Errorf("%s: the answer names folders of the machine: %v", name, public.Message(fault.English))
		}
	}
	if err := e.UnloadAdapter("law"); err != nil {
		t.Error(err)
	}
	if err := e.UnloadAdapter("law"); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("unloaded twice: %v", err)
	}
	if err := e.UnloadAdapter(tinyID); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("a model was unloaded as an adapter: %v", err)
	}
	if _, err := babble(t, e, "law", "acme"); !fault.Is(err, fault.CodeModelNotFound) || len(e.Adapters()) != 0 {
		t.Errorf("it is still there: %v", err)
	}
}

// Adapters of the configuration are there from the start; what is wrong with one stops the start, and nothing stays behind.
func TestConfiguredAdapters(t *testing.T) {
	model, encoder, path := newTiny(gguf.Q8_0).write(t), tinyEncoder(t, 1, gguf.F32), tinyAdapter(t, 4, 0.5)
	open := func(a AdapterConfig) (*Engine, error) {
		return New(Config{
			Models: []ModelConfig{{ID: tinyID, Path: model}, {ID: "vectors", Path: encoder}}, Adapters: []AdapterConfig{a}, Threads: 2,
		}, slog.New(slog.DiscardHandler), nil)
	}
	e, err := open(AdapterConfig{ID: "law", Model: tinyID, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if _, err := babble(t, e, "law", "anybody"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		cfg  AdapterConfig
		says string
	}{
		{AdapterConfig{ID: "law", Model: "vectors", Path: path}, "generates no text"},
		{AdapterConfig{ID: "law", Model: tinyID, Path: filepath.Join(path, "none")}, "no such file"},
		{AdapterConfig{ID: "law", Model: "none", Path: path}, "not among the models"},
		{AdapterConfig{ID: tinyID, Model: tinyID, Path: path}, "needs an id"},
	} {
		if _, err := open(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}
