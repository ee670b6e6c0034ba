package gateway

import (
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/gateway/egress"
)

// holdbackMeter measures a release: how much of a stream waits for what follows, and how long each piece of it has waited when it is out.
type holdbackMeter struct {
	egress.Release

	held, wait observer
	now        func() time.Time
	waiting    []arrival
	characters int // of waiting
}

type observer interface{ Observe(v float64) }

// arrival is a piece that came from the engine.
type arrival struct {
	at         time.Time
	characters int
}

// newRelease opens the rules for a text of the answer. What is looked at by itself waits for nothing, so it is not measured.
func (r *run) newRelease(kind egress.Kind) egress.Release {
	if kind == egress.Word {
		return r.admission.decision.Release()
	}
	return &holdbackMeter{
		Release: r.admission.decision.Release(), now: r.p.now, held: r.p.metrics.held.WithLabelValues(string(kind)), wait: r.p.metrics.wait.WithLabelValues(string(kind)),
	}
}

// Write implements egress.Release.
func (w *holdbackMeter) Write(s string) (string, error) { return w.pass(s, w.Release.Write) }

// WriteName passes a name on, see [egress.WriteName].
func (w *holdbackMeter) WriteName(s string) (string, error) {
	return w.pass(s, func(s string) (string, error) { return egress.WriteName(w.Release, s) })
}

func (w *holdbackMeter) pass(s string, write func(string) (string, error)) (string, error) {
	now := w.now()
	n := utf8.RuneCountInString(s)
	w.waiting, w.characters = append(w.waiting, arrival{now, n}), w.characters+n
	out, err := write(s)
	if err != nil {
		return "", err
	}
	held := w.Held()
	w.held.Observe(float64(held))
	w.markReleased(now, held)
	return out, nil
}

// Close implements egress.Release.
func (w *holdbackMeter) Close(unsaid ...string) (string, error) {
	out, err := w.Release.Close(unsaid...)
	if err == nil {
		w.markReleased(w.now(), 0)
	}
	return out, err
}

// markReleased notes that all but the last characters are out.
func (w *holdbackMeter) markReleased(now time.Time, held int) {
	n := 0
	for n < len(w.waiting) && w.characters-w.waiting[n].characters >= held {
		w.characters -= w.waiting[n].characters
		w.wait.Observe(now.Sub(w.waiting[n].at).Seconds())
		n++
	}
	w.waiting = append(w.waiting[:0], w.waiting[n:]...)
}
