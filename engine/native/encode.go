package native

import (
	"time"

	"github.com/sluice-project/sluice/engine/native/sched"
)

// The share of the time between two tokens that encoders take while sequences of its class decode: the rest is the sequences'. The
// controller counts it as the time beside its steps.
const encodeShare = 4

// encoding reports whether an encoder has something to do.
func (l *loop) encoding() bool {
	for _, e := range l.encoders {
		if e.queue.pending() < sched.Classes {
			return true
		}
	}
	return false
}

// encode lets the encoders compute, most urgent texts first: for a share of the time between two tokens while somebody waits for tokens,
// otherwise until a batch is done or a sequence arrives. A batch that is not done in time goes on the next time, so that a long text
// keeps nobody waiting for longer than a layer of it takes.
func (l *loop) encode() {
	e := l.mostUrgent()
	if e == nil {
		return
	}
	end := time.Now().Add(l.slice())
	alone := len(l.active) == 0
	e.work(encoderRows, func() bool {
		return l.arrived.Load() || !alone && time.Now().After(end)
	})
}

// mostUrgent is the encoder with the most urgent class of texts; those with the same take turns.
func (l *loop) mostUrgent() *encoder {
	var best *encoder
	urgent := sched.Classes
	l.turn++
	for i := range l.encoders {
		e := l.encoders[(i+l.turn)%len(l.encoders)]
		if class := e.queue.pending(); class < urgent {
			best, urgent = e, class
		}
	}
	return best
}

// slice is how long encoders may compute between two steps.
func (l *loop) slice() time.Duration {
	targets := l.latency
	least := targets[sched.Batch]
	for _, s := range l.active {
		least = min(least, targets[s.job.class])
	}
	return least / encodeShare
}
