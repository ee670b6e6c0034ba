package gateway

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestAnswerFirst: a blocking answer leaves while its outcome is being written; a stream, and an answer where the policy does not say so, wait.
func TestAnswerFirst(t *testing.T) {
	for _, c := range []struct{ answers, blocking, waits bool }{{true, true, false}, {true, false, true}, {false, true, true}} {
		w := newWorld(t, nil)
		w.answers, w.log.hold = c.answers, make(chan struct{})
		q := call("hello")
		q.Blocking = c.blocking
		r, err := w.Chat(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		admitted := w.log.events[0]
		if quoted := admitted.Usage.PromptTokens > 0 && admitted.Usage.Cost == 2*admitted.Usage.PromptTokens && admitted.PriceBook == "b1" && admitted.Usage.Estimated; quoted == c.waits {
			t.Errorf("%+v: the admission says %+v", c, admitted.Usage)
		}
		came := make(chan error, 1)
		go func() {
			_, err := r.Collect()
			came <- err
		}()
		if !c.waits { // it comes although no outcome can be written
			if err := <-came; err != nil {
				t.Error(err)
			}
			if got := w.log.trail(); got != "admitted" || r.Summary().Usage.Cost == 0 || !w.slotFree(t) {
				t.Errorf("trail %q, summary %+v", got, r.Summary())
			}
		}
		close(w.log.hold)
		if c.waits {
			if err := <-came; err != nil {
				t.Error(err)
			}
		}
		w.Drain()
		if got := w.log.trail(); got != "admitted outcome/ok" {
			t.Errorf("%+v: trail %q", c, got)
		}
	}
}

// TestAnswerFirstFails: what went wrong is recorded before the caller is told, and an outcome that is lost is counted.
func TestAnswerFirstFails(t *testing.T) {
	w := newWorld(t, says("FORBIDDEN"))
	w.answers = true
	q := call("hello")
	q.Blocking = true
	r, err := w.Chat(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Collect(); !fault.Is(err, fault.CodeBlockedAnswer) || w.log.trail() != "admitted outcome/refused" {
		t.Errorf("%v, %q", err, w.log.trail())
	}
	w = newWorld(t, nil)
	w.answers, w.log.failAt = true, map[audit.Stage]error{audit.StageOutcome: errBroken}
	q = call("hello")
	q.Blocking = true
	if _, a := chat(t, w, q); a.Choices[0].Text != "hello" {
		t.Errorf("%+v", a)
	}
	w.Drain()
	reg := prometheus.NewRegistry()
	reg.MustRegister(w.metrics.unrecorded)
	if got, err := reg.Gather(); err != nil || got[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("lost outcomes are counted as %v, %v", got, err)
	}
}

// TestNoReceiptWithoutARecord: where best effort is enough and no record could be written, nobody is told that there is one.
func TestNoReceiptWithoutARecord(t *testing.T) {
	w := newWorld(t, nil)
	w.log.loses = true
	r, _ := chat(t, w, call("hello"))
	if r.Receipt != "" {
		t.Errorf("receipt %q", r.Receipt)
	}
	w.fail["limit"] = fault.New(fault.CodeRateLimited, 5)
	_, err := w.Chat(t.Context(), call("hello"))
	if refusal := new(Refusal); !errors.As(err, &refusal) || refusal.Receipt != "" {
		t.Errorf("%v with the receipt %q", err, refusal.Receipt)
	}
}
