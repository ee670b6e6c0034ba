package native

import (
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/tokenizer"
)

// output turns the tokens of one choice into text: whole characters, cut before the first stop string. It holds back only what may
// still turn out to be the beginning of a stop string. What it lets through does not depend on how text is split into tokens.
type output struct {
	stops   []string
	stream  tokenizer.Stream
	pending string
	total   int // bytes of text so far, pending ones included
	tokens  []tokenText
}

// tokenText remembers where the text of a token lies, while its log-probability waits.
type tokenText struct {
	start, end int
	logprob    engine.TokenLogprob
}

// textPart is what may be shown.
type textPart struct {
	text     string
	logprobs []engine.TokenLogprob
	stopped  int // 1 and the place of the stop string that was found, after which nothing comes; 0: none
}

// push adds a token. lp is nil when nobody asked for log-probabilities. Until armed, stop strings are text like any other.
func (o *output) push(token []byte, lp *engine.TokenLogprob, armed bool) textPart {
	start := o.total
	text := o.stream.Write(token)
	o.pending += text
	o.total += len(text)
	if lp != nil {
		o.tokens = append(o.tokens, tokenText{start, o.total, *lp})
	}
	if !armed {
		return o.release(len(o.pending))
	}
	if cut, stop := o.firstStop(len(o.pending) - len(text)); stop >= 0 {
		return o.stopAt(cut, stop)
	}
	return o.release(len(o.pending) - o.held())
}

// close ends the text without a stop string and returns what was held back. The bytes of an unfinished character are shown as
// U+FFFD when the model ended there, and dropped when a limit cut it off: the rest of it was never asked for.
func (o *output) close(cut bool) textPart {
	text := o.stream.Close()
	if cut {
		text = ""
	}
	o.pending += text
	o.total += len(text)
	if cut, stop := o.firstStop(len(o.pending) - len(text)); stop >= 0 {
		return o.stopAt(cut, stop)
	}
	p := o.release(len(o.pending))
	for _, t := range o.tokens {
		p.logprobs = append(p.logprobs, t.logprob)
	}
	o.tokens = nil
	return p
}

// release lets the first n pending bytes through, with the tokens that end in them.
func (o *output) release(n int) textPart {
	p := textPart{text: o.pending[:n]}
	o.pending = o.pending[n:]
	shown := o.total - len(o.pending)
	done := 0
	for done < len(o.tokens) && o.tokens[done].end <= shown {
		p.logprobs = append(p.logprobs, o.tokens[done].logprob)
		done++
	}
	o.tokens = o.tokens[done:]
	return p
}

// stopAt ends the text before the pending byte cut, where a stop string begins; a token that reaches over the cut still counts.
func (o *output) stopAt(cut, stop int) textPart {
	end := o.total - len(o.pending) + cut
	p := o.release(cut)
	for _, t := range o.tokens {
		if t.start < end {
			p.logprobs = append(p.logprobs, t.logprob)
		}
	}
	p.stopped = 1 + stop
	o.tokens, o.pending = nil, ""
	return p
}

// firstStop returns which stop string is complete first, or −1, and where it begins. Text before the byte fresh held none.
func (o *output) firstStop(fresh int) (begin, stop int) {
	stop, end := -1, len(o.pending)+1
	for k, s := range o.stops {
		if s == "" {
			continue
		}
		from := max(0, fresh-len(s)+1)
		i := strings.Index(o.pending[from:], s)
		if i < 0 {
			continue
		}
		i += from
		if i+len(s) < end || i+len(s) == end && i < begin {
			begin, end, stop = i, i+len(s), k
		}
	}
	return begin, stop
}

// held returns the length of the longest ending of the pending text that begins a stop string.
func (o *output) held() int {
	longest := 0
	for _, s := range o.stops {
		for n := min(len(s)-1, len(o.pending)); n > longest; n-- {
			if strings.HasSuffix(o.pending, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}
