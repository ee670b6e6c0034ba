package pool

import "slices"

// Verdict is what a choice made of an instance.
type Verdict string

// The verdicts.
const (
	VerdictChosen  Verdict = "chosen"
	VerdictWorse   Verdict = "worse"   // it could have the request, and another one was preferred
	VerdictSlow    Verdict = "slow"    // it would take longer until its first token than the preference allows
	VerdictBusy    Verdict = "busy"    // it has more than its part of the requests
	VerdictFull    Verdict = "full"    // it has as many as it is taken to manage
	VerdictFailing Verdict = "failing" // it is passed over for a while
	VerdictUnfit   Verdict = "unfit"   // the request may not go there, or it cannot do what is asked: Why
	VerdictClosed  Verdict = "closed"  // it takes no requests now
	VerdictAbsent  Verdict = "absent"  // it does not have the model, or does not answer
	VerdictTried   Verdict = "tried"   // the request has been there
)

// maxTraced bounds the instances that a trace tells of.
const maxTraced = 16

// Considered is an instance in a trace.
type Considered struct {
	Instance string
	Place    Place
	Verdict  Verdict
	Why      string // of one that is unfit, in a word
	Running  int    // requests of this replica
	Score    Score  // where instances are compared by a preference
}

// Trace tells how an instance was chosen. Its memory is its user's, so that a choice needs none. The zero value is empty.
type Trace struct {
	all  [maxTraced]Considered
	n    int
	more int
}

// All returns the instances that were considered, at most 16, in the order of the pool; they are valid until the next choice.
func (t *Trace) All() []Considered { return t.all[:t.n] }

// More is how many others there were.
func (t *Trace) More() int { return t.more }

// add notes an instance and returns where it is; -1 if it has no room, or there is no trace.
func (t *Trace) add(i *Instance, v Verdict, why string) int {
	if t == nil {
		return -1
	}
	if t.n == len(t.all) {
		t.more++
		return -1
	}
	t.all[t.n] = Considered{Instance: i.Name, Place: i.Place(), Verdict: v, Why: why, Running: int(i.running.Load())}
	t.n++
	return t.n - 1
}

// compared notes what those that could have the request scored, and why some of them were passed over.
func (t *Trace) compared(all []candidate) {
	if t == nil {
		return
	}
	for n := range all {
		c := &all[n]
		if c.at < 0 {
			continue
		}
		t.all[c.at].Score = c.score
		switch {
		case c.slow:
			t.all[c.at].Verdict = VerdictSlow
		case c.over:
			t.all[c.at].Verdict = VerdictBusy
		}
	}
}

func (t *Trace) reset() {
	if t != nil {
		t.n, t.more = 0, 0
	}
}

// choose marks the instance that was chosen; one without room takes the place of the last.
func (t *Trace) choose(i *Instance, score Score) {
	if t == nil || i == nil {
		return
	}
	at := slices.IndexFunc(t.All(), func(c Considered) bool { return c.Instance == i.Name })
	if at < 0 {
		at = len(t.all) - 1
		t.all[at] = Considered{Instance: i.Name, Place: i.Place(), Running: int(i.running.Load())}
	}
	t.all[at].Verdict, t.all[at].Why, t.all[at].Score = VerdictChosen, "", score
}
