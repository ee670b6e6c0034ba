package watermark

import (
	"cmp"
	stdctx "context"
	"errors"
	"fmt"
	"math"
)

// Verdict is what is said of a text.
type Verdict string

// The verdicts.
const (
	Found      Verdict = "found"
	Indication Verdict = "indication" // to look closer, not to rely on
	NotFound   Verdict = "not_found"  // which is no proof that there was no mark
	CannotSay  Verdict = "cannot_say" // the text is too short
)

// DetectorConfig says what is looked for. The zero values of its numbers are the defaults.
type DetectorConfig struct {
	// Keys are all that are tried. How many there are weakens every finding: give those of the tenants and epochs that are in question.
	Keys []*Key
	// Attempts is how many detections are made of the same text, as with the tokenizers of several models, which are not independent of each other: every p
	// is multiplied by it; 0 means 1.
	Attempts int
	// Found and Indication are the greatest p of these verdicts; 0 means 1e-9 and 3.2e-5.
	Found, Indication float64
	// Least is how many tokens that count a text must have; 0 means 64.
	Least int
	// WholeOnly leaves out the search for marked passages. p is not spent on it, then.
	WholeOnly bool
}

const (
	defaultFound      = 1e-9
	defaultIndication = 3.2e-5
	defaultLeast      = 64
	firstRun          = 64 // tokens of the shortest passages that are looked for
)

// MaxTokens is how many tokens a text and what is known of it have together at most.
const MaxTokens = 1 << 20

// ErrTooLong says that there are more than MaxTokens tokens.
var ErrTooLong = errors.New("watermark: the text is too long")

// Detector looks for marks. It is immutable, and safe for concurrent use.
type Detector struct {
	cfg     DetectorConfig
	subKeys float64 // of all keys
}

// NewDetector returns a detector.
func NewDetector(cfg DetectorConfig) (*Detector, error) {
	cfg.Attempts = cmp.Or(cfg.Attempts, 1)
	cfg.Found = cmp.Or(cfg.Found, defaultFound)
	cfg.Indication = cmp.Or(cfg.Indication, defaultIndication)
	cfg.Least = cmp.Or(cfg.Least, defaultLeast)
	switch {
	case len(cfg.Keys) == 0:
		return nil, errors.New("watermark: a detector needs a key")
	case cfg.Attempts < 0 || cfg.Least < 0:
		return nil, errors.New("watermark: attempts and the least number of tokens are not negative")
	case !(cfg.Found > 0 && cfg.Found <= cfg.Indication && cfg.Indication < 1):
		return nil, fmt.Errorf("watermark: %v for a finding and %v for an indication: the first is above 0 and no greater than the second, which is below 1", cfg.Found, cfg.Indication)
	}
	d := &Detector{cfg: cfg}
	for _, k := range cfg.Keys {
		d.subKeys += float64(k.params.SubKeys)
	}
	return d, nil
}

// Result is what a detector says of a text.
type Result struct {
	Verdict Verdict
	// P is how likely a text that was written without the keys scores as high, with everything taken into account that was tried; LogP is its natural
	// logarithm, also where P is too small to be told from 0. A text that is too short has P 1.
	P, LogP float64
	// Counted is how many tokens of the whole text count: with the scheme of Best, or, without one, with that of which the most do.
	Counted int
	// Tries is how many sub-keys are taken into account, and Runs how many passages for each.
	Tries float64
	Runs  int
	// Best is what was found; nil unless the verdict is Found or Indication.
	Best *Match
}

// Match is where a text has a mark, and of which key.
type Match struct {
	Key    *Key
	SubKey int
	// Begin and End are the tokens of the text between which the mark is strongest, End excluded, and Counted is how many of them count.
	Begin, End, Counted int
	// LogP is the natural logarithm of p before anything else that was tried is taken into account.
	LogP float64
}

// Detect says whether a text has a mark. known are texts of which nothing counts, such as templates, terms and the text of a question that an answer
// may quote. Errors: ErrTooLong, a token below 0, and that of ctx.
func (d *Detector) Detect(ctx stdctx.Context, tokens []int32, known ...[]int32) (Result, error) {
	if err := check(tokens, known); err != nil {
		return Result{}, err
	}
	best := find{logP: 1}
	counts := map[Params][]pair{}
	res := Result{Tries: d.subKeys * float64(d.cfg.Attempts)}
	for _, k := range d.cfg.Keys {
		kind := Params{Scheme: k.params.Scheme, Context: k.params.Context}
		pairs, ok := counts[kind]
		if !ok {
			pairs = countable(kind, tokens, known)
			counts[kind] = pairs
		}
		runs := d.runs(len(pairs))
		res.Counted, res.Runs = max(res.Counted, len(pairs)), max(res.Runs, runs.total)
		if len(pairs) < d.cfg.Least {
			continue
		}
		scorer := newScorer(k, pairs)
		for number := range k.params.SubKeys {
			if err := ctx.Err(); err != nil {
				return Result{}, fmt.Errorf("watermark: %w", err)
			}
			if f := scorer.find(number, runs); f.logP < best.logP {
				best = f
				best.counted, best.runs = len(pairs), runs.total
			}
		}
	}
	d.judge(&res, &best)
	return res, nil
}

// check refuses what is too long or holds no tokens.
func check(tokens []int32, known [][]int32) error {
	length := 0
	for _, t := range append([][]int32{tokens}, known...) {
		if length += len(t); length > MaxTokens {
			return ErrTooLong
		}
		for _, id := range t {
			if id < 0 {
				return fmt.Errorf("watermark: %d is no token", id)
			}
		}
	}
	return nil
}

func (d *Detector) judge(res *Result, best *find) {
	if best.logP > 0 {
		res.Verdict, res.P = CannotSay, 1
		return
	}
	res.LogP = min(0, anyOf(best.logP, d.subKeys)+math.Log(float64(d.cfg.Attempts)))
	res.P = math.Exp(res.LogP)
	switch {
	case res.LogP <= math.Log(d.cfg.Found):
		res.Verdict = Found
	case res.LogP <= math.Log(d.cfg.Indication):
		res.Verdict = Indication
	default:
		res.Verdict = NotFound
		return
	}
	m := best.match
	res.Best, res.Counted, res.Runs = &m, best.counted, best.runs
}

// pair is a token that counts, with its context and its place in the text.
type pair struct {
	context context
	token   int32
	place   int
}

// countable lists the tokens that count: one for each context, or with KGW for each context and token, unless a known text has it.
func countable(kind Params, tokens []int32, known [][]int32) []pair {
	type seen struct {
		context context
		token   int32 // 0 where the context alone decides
	}
	had := make(map[seen]struct{}, len(tokens))
	key := func(c context, token int32) seen {
		if kind.Scheme == Gumbel {
			token = 0
		}
		return seen{c, token}
	}
	for _, t := range known {
		for i := kind.Context; i < len(t); i++ {
			had[key(at(t, i, kind.Context), t[i])] = struct{}{}
		}
	}
	var out []pair
	for i := kind.Context; i < len(tokens); i++ {
		p := pair{at(tokens, i, kind.Context), tokens[i], i}
		k := key(p.context, p.token)
		if _, again := had[k]; !again {
			had[k] = struct{}{}
			out = append(out, p)
		}
	}
	return out
}

// runs are the passages that are tried beside the whole text, by their numbers of tokens that count.
type runs struct {
	sizes []int
	total int
}

func (d *Detector) runs(n int) runs {
	var r runs
	if d.cfg.WholeOnly {
		return r
	}
	for size := firstRun; size < n; size *= 2 {
		r.sizes = append(r.sizes, size)
		r.total += (n-size+size/4-1)/(size/4) + 1
	}
	return r
}

// scorer scores the tokens of a text with the sub-keys of one key.
type scorer struct {
	key   *Key
	pairs []pair
	sums  []float64 // of the first tokens, from none to all
	green uint64
}

func newScorer(k *Key, pairs []pair) *scorer {
	return &scorer{key: k, pairs: pairs, sums: make([]float64, len(pairs)+1), green: green(k.params.Gamma)}
}

// find is a match, with the logarithm of p among all passages of one sub-key.
type find struct {
	logP          float64
	match         Match
	counted, runs int // of the whole text, with its scheme
}

// find scores a text with one sub-key.
func (s *scorer) find(number int, r runs) find {
	sub := s.key.sub(number)
	for i, p := range s.pairs {
		s.sums[i+1] = s.sums[i] + s.score(sub, &p)
	}
	n := len(s.pairs)
	f := s.match(number, 0, n)
	if len(r.sizes) == 0 {
		return f
	}
	best := f
	best.logP = min(0, f.logP+math.Ln2)
	for _, size := range r.sizes {
		f := s.match(number, s.heaviest(size), size)
		if f.logP = min(0, f.logP+math.Ln2+math.Log(float64(r.total))); f.logP < best.logP {
			best = f
		}
	}
	return best
}

// score is what a token counts: exponential with [Gumbel], 0 or 1 with [KGW].
func (s *scorer) score(sub *subKey, p *pair) float64 {
	bits := sub.numbers(p.context).bits(p.token)
	if s.key.params.Scheme == Gumbel {
		return -math.Log(unit(bits))
	}
	if bits < s.green {
		return 1
	}
	return 0
}

// heaviest returns where the run of this size begins whose sum is greatest.
func (s *scorer) heaviest(size int) int {
	last, best, most := len(s.pairs)-size, 0, math.Inf(-1)
	for from := 0; ; from += size / 4 {
		from = min(from, last)
		if sum := s.sums[from+size] - s.sums[from]; sum > most {
			best, most = from, sum
		}
		if from == last {
			return best
		}
	}
}

func (s *scorer) match(number, from, size int) find {
	sum := s.sums[from+size] - s.sums[from]
	m := Match{Key: s.key, SubKey: number, Counted: size}
	if size > 0 {
		m.Begin, m.End = s.pairs[from].place-s.key.params.Context, s.pairs[from+size-1].place+1
	}
	if s.key.params.Scheme == Gumbel {
		m.LogP = gammaTail(size, sum)
	} else {
		m.LogP = binomialTail(size, int(sum+0.5), s.key.params.Gamma)
	}
	return find{logP: m.LogP, match: m}
}
