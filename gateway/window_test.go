package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// TestWindow: each piece of a stream is measured once, when its last character is out.
func TestWindow(t *testing.T) {
	clock := time.Unix(1_000, 0)
	var held, waited []float64
	w := &window{
		Release: &fakeRelease{}, now: func() time.Time { return clock },
		held: prometheus.ObserverFunc(func(v float64) { held = append(held, v) }), wait: prometheus.ObserverFunc(func(v float64) { waited = append(waited, v) }),
	}
	for _, s := range []string{"甲乙", "丙⟦", "1", "", "⟧丁", "⟦"} {
		if _, err := w.Write(s); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(time.Second)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(held, waited) != "[0 1 2 2 0 1] [0 3 2 1 0 1]" {
		t.Errorf("held %v, waited %v", held, waited)
	}
}

// TestWindowsAreMeasured: every kind of text of an answer has its series.
func TestWindowsAreMeasured(t *testing.T) {
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "c", Name: "f", Arguments: `{"a":"bcdefg"}`}}}, Texts: []string{"abc"}}
	})
	reg := prometheus.NewRegistry()
	w.metrics = newMetrics(reg)
	c := call("x")
	c.Tools = []engine.Tool{{Name: "f"}}
	chat(t, w, c)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); h != nil && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetName() == "kind" {
				got[family.GetName()+" "+m.GetLabel()[0].GetValue()] = h.GetSampleCount()
			}
		}
	}
	for _, name := range []string{"sluice_gateway_held_characters", "sluice_gateway_held_seconds"} {
		if got[name+" content"] == 0 || got[name+" arguments"] < 2 || len(got) != 4 {
			t.Errorf("%v", got)
		}
	}
}
