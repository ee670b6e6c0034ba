package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/route"
)

// TestWindow: each piece of a stream is measured once, when its last character is out.
func TestWindow(t *testing.T) {
	clock := time.Unix(1_000, 0)
	var held, waited []float64
	w := &holdbackMeter{
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

// plainAdmission lets answers out as they are.
type plainAdmission struct{ Decision }

func (plainAdmission) Release() egress.Release           { return &plainRelease{} }
func (plainAdmission) Masked() bool                      { return false }
func (plainAdmission) StoreValues(context.Context) error { return nil }

type plainRelease struct{ last string }

func (p *plainRelease) Write(s string) (string, error) {
	p.last = s
	return s, nil
}
func (p *plainRelease) Close(...string) (string, error) { return "", nil }
func (p *plainRelease) Held() int                       { return 0 }
func (p *plainRelease) Masked() string                  { return p.last }

// TestEventsCostNoAllocation: from the engine's event to the one that leaves, measured and digested, nothing is allocated where the rules
// allocate nothing. Package egress shows that of the real ones.
func TestEventsCostNoAllocation(t *testing.T) {
	w := newWorld(t, nil)
	r := w.newRun(call("x"), route.Generate)
	r.admission.decision = plainAdmission{}
	r.masked.call = r.received
	r.prompt.text = &engine.Prompt{Request: &engine.Request{Choices: 1}}
	r.admission.visible.sentence = true
	r.answer.open(r.egress(), nil)
	ctx, ev := t.Context(), engine.Event{Text: "token "}
	if n := testing.AllocsPerRun(1000, func() {
		if out, err := r.release(ctx, ev); err != nil || len(out) != 1 || out[0].Text != ev.Text {
			t.Fatal(out, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for an event", n)
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
