package egress

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
)

// logprobs are the log-probabilities of a choice. They spell text, so an entry leaves only when the text it spells has left unchanged.
type logprobs struct {
	pending string // text that went into the release and has not come out
	tokens  []engine.TokenLogprob
	spell   string // text that came out and is not yet spelled by an entry
	changed bool
}

// logprobs returns the entries whose text has now left unchanged. Once any text has been changed or hidden, or an entry does not spell
// what left, no entry of the choice leaves any more; an entry that spells text past the end, such as that of a stop string, never does.
// Entries that come with text beside the answer are left out: they spell that.
func (a *Answer) logprobs(ev *engine.Event, out string) ([]engine.TokenLogprob, error) {
	c := &a.choices[ev.Choice]
	if c.changed {
		return nil, nil
	}
	beside := ev.Reasoning != "" || ev.Refusal != ""
	switch {
	case !beside:
		c.tokens = append(c.tokens, ev.Logprobs...)
	case ev.Text != "" && len(ev.Logprobs) > 0: // whose is whose cannot be told
		c.withhold()
		return nil, nil
	default:
		a.tally.Withheld = a.tally.Withheld || len(ev.Logprobs) > 0
	}
	rest, same := strings.CutPrefix(c.pending+ev.Text, out)
	if !same || ev.Finish != engine.FinishNone && rest != "" {
		c.withhold()
		return nil, nil
	}
	c.pending = rest
	if c.spell += out; len(c.spell) > maxUnspelled { // the engine has none
		c.withhold()
		return nil, nil
	}
	n := 0
	for n < len(c.tokens) && len(c.tokens[n].Bytes) <= len(c.spell) {
		t := &c.tokens[n]
		harmless, err := a.harmless(t)
		if err != nil {
			return nil, err
		}
		if !harmless || !strings.HasPrefix(c.spell, string(t.Bytes)) {
			c.withhold()
			return nil, nil
		}
		c.spell = c.spell[len(t.Bytes):]
		n++
	}
	gone := c.tokens[:n:n]
	c.tokens = c.tokens[n:]
	return gone, nil
}

// withhold lets no more entries of the choice leave.
func (l *logprobs) withhold() { l.changed, l.tokens, l.spell = true, nil, "" }

// maxUnspelled is how much text may be without entries until none is waited for any more.
const maxUnspelled = 64 << 10

// longToken is the length in bytes from which one token can be a value.
const longToken = 5

// harmless reports whether the tokens that were not chosen may be shown: each has to pass the rules of the answer as it is. What an
// entry calls its tokens is made from their bytes, which are what is looked at.
func (a *Answer) harmless(t *engine.TokenLogprob) (bool, error) {
	t.Token = strings.ToValidUTF8(string(t.Bytes), "\uFFFD")
	t.Top = slices.Clone(t.Top)
	for i := range t.Top {
		alt := &t.Top[i]
		alt.Token = strings.ToValidUTF8(string(alt.Bytes), "\uFFFD")
		if len(alt.Bytes) < longToken || alt.Token == t.Token {
			continue
		}
		if shown, _, err := ReleaseWhole(a.cfg.Open(Word), alt.Token); err != nil || shown != alt.Token {
			return false, err
		}
	}
	return true, nil
}
