package native

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/fault"
)

// The bound holds for weights, adapters, room for steps and pages together; what does not fit is refused with the key to turn.
func TestMemoryBound(t *testing.T) {
	model := newTiny(gguf.F32)
	path := model.write(t)
	open := func(cfg Config) (*Engine, error) {
		cfg.Models, cfg.Threads = []ModelConfig{{ID: tinyID, Path: path}}, 2
		e, err := New(cfg, slog.New(slog.DiscardHandler), nil)
		if err == nil {
			t.Cleanup(func() { _ = e.Close() })
		}
		return e, err
	}
	free, err := open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	page, fixed := free.generators[tinyID].prog.PageBytes(), free.opener.budget.taken-free.generators[tinyID].pages*free.generators[tinyID].prog.PageBytes()
	if fixed < 2<<20 {
		t.Fatalf("weights and steps of a model with 8 MB of weights take %d bytes", fixed)
	}

	for _, c := range []struct {
		mebibytes, kv int
		says          string
	}{
		{1, 0, "model tiny takes"},
		{mebibytes(weightBytes(free)), 0, "memory_mebibytes"},
	} {
		if _, err := open(Config{MemoryMebibytes: c.mebibytes, KVMemoryMebibytes: c.kv}); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "memory_mebibytes") {
			t.Errorf("%d MiB: %v", c.mebibytes, err)
		}
	}

	limit := mebibytes(fixed) + 1
	tight, err := open(Config{MemoryMebibytes: limit, KVMemoryMebibytes: 512})
	if err != nil {
		t.Fatal(err)
	}
	g := tight.generators[tinyID]
	if taken := tight.opener.budget.taken; g.pages < 1 || taken > limit<<20 || taken < limit<<20-page || g.pass.Pages().Limit() != g.pages {
		t.Errorf("%d pages of %d bytes, %d bytes of %d MiB in all", g.pages, page, taken, limit)
	}
	if _, err := babble(t, tight, tinyID, ""); err != nil {
		t.Error(err)
	}

	// Pages took what was left, so an adapter finds no room, unless room was kept for it.
	adapter := AdapterConfig{ID: "law", Model: tinyID, Path: tinyAdapter(t, 8, 0.5)}
	before := tight.opener.budget.taken
	tight.opener.budget.taken = limit << 20
	if _, err := tight.LoadAdapter(adapter); !fault.Is(err, fault.CodeInvalidValue) || !strings.Contains(err.Error(), "memory_mebibytes") {
		t.Errorf("an adapter beyond the bound: %v", err)
	}
	tight.opener.budget.taken = before
	roomy, err := open(Config{MemoryMebibytes: limit + 4, KVMemoryMebibytes: 1, Adapters: []AdapterConfig{adapter}})
	if err != nil {
		t.Fatal(err)
	}
	before = roomy.opener.budget.taken
	if err := roomy.UnloadAdapter("law"); err != nil || roomy.opener.budget.taken >= before {
		t.Errorf("unloading gives nothing back: %d, %d, %v", before, roomy.opener.budget.taken, err)
	}
	if _, err := roomy.LoadAdapter(adapter); err != nil || roomy.opener.budget.taken != before {
		t.Errorf("loading it again: %d, %d, %v", before, roomy.opener.budget.taken, err)
	}
	if _, err := roomy.LoadAdapter(adapter); err == nil || roomy.opener.budget.taken != before {
		t.Errorf("a refused adapter takes memory: %d, %d, %v", before, roomy.opener.budget.taken, err)
	}
}

func weightBytes(e *Engine) int {
	_, bytes, _, wanted := e.generators[tinyID].prog.Products()
	return bytes + wanted
}
