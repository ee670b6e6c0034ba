package tenantmark

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

// MaxText is how many bytes of text are examined at most.
const MaxText = 64 << 10

// LeastTokens is how many different tokens, with those before each, a text must have for a verdict. Its whole may be longer.
const LeastTokens = 64

const (
	maxWait = 20 * time.Second // for others, after which a detection is refused
	maxTime = 20 * time.Second // that a detection computes
	// maxWork is how many tokens are scored at most: those of each reading, with each sub-key.
	maxWork = 1 << 28
)

// Tokenizer makes the tokens of a model of texts, and says where each ends in the text, in bytes; nil where that cannot be told.
type Tokenizer = func(text string) (tokens []int32, ends []int)

// ServiceConfig is what a service works on.
type ServiceConfig struct {
	Store *Store
	// Tokenizers returns one for each model of this installation that marks.
	Tokenizers func() []Tokenizer
}

// Service says whether texts have a mark. One detection computes at a time, and of each tenant one waits for it: nobody's questions keep another tenant
// from its turn for longer than one detection of each tenant that asks.
type Service struct {
	cfg              ServiceConfig
	turn             chan struct{} // of the one detection that computes
	mu               sync.Mutex
	places           map[string]*place // by tenant, of those that ask now
	maxWait, maxTime time.Duration
	maxWork          int
}

// place is that of a tenant among those that wait.
type place struct {
	turn chan struct{} // of the detection of the tenant that waits, or computes
	asks int
}

// NewService returns a service.
func NewService(cfg ServiceConfig) *Service {
	return &Service{cfg: cfg, turn: make(chan struct{}, 1), places: map[string]*place{}, maxWait: maxWait, maxTime: maxTime, maxWork: maxWork}
}

// Reason is why nothing can be said of a text.
type Reason string

// The reasons.
const (
	ReasonShort     Reason = "short"     // it has less than LeastTokens
	ReasonNoKey     Reason = "key"       // the tenant has no key: no answer of it was to be marked
	ReasonTokenizer Reason = "tokenizer" // no model is here by whose tokens it could be read
)

// Question is a text in question.
type Question struct {
	Tenant, Text string
	// Key is the only one that is tried, which makes p stronger; "": the newest of the tenant, MaxTried at most.
	Key string
}

// Finding is what is said of a text.
type Finding struct {
	Verdict watermark.Verdict
	Reason  Reason // of CannotSay
	// P bounds how likely a text that was written without the keys of the tenant scores as high, all that was tried taken into account; Log10P is its
	// decimal logarithm, also where P is too small to be told from 0. It is 1 of CannotSay.
	P, Log10P float64
	// Tokens is how many the text has, Counted how many of them count, as the tokenizer has it with which the mark is strongest.
	Tokens, Counted int
	// Key has marked it; nil unless the verdict is Found or Indication. If it was revoked, the verdict is Indication whatever P is: others may have the key. Begin and End are the tokens between which the mark is strongest, End excluded;
	// Passage are their bytes in the text, nil where that cannot be told.
	Key        *Key
	Begin, End int
	Passage    *Passage
	// What was tried: keys of the tenant, and ways to read the text that differ. Untried are older keys, and Unreadable those whose secret does not open.
	Keys, Readings int
	Untried        int
	Unreadable     []string
}

// Passage is a part of a text, in bytes, End excluded.
type Passage struct{ Begin, End int }

// Detect says whether a text has the mark of a tenant. It keeps nothing of the text. Errors: CodeInvalidValue for a text that is too long, or takes too
// long; CodeNotFound for a key that the tenant has not; CodeConcurrency while others are examined; CodeDatabaseUnavailable; that of ctx.
func (s *Service) Detect(ctx context.Context, q Question) (Finding, error) {
	if len(q.Text) > MaxText {
		return Finding{}, fault.New(fault.CodeInvalidValue, "text", fault.Say("watermark.text_bytes", MaxText)).WithParam("text")
	}
	tried, err := s.cfg.Store.keysToTry(ctx, q.Tenant, q.Key)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Verdict: watermark.CannotSay, P: 1, Keys: len(tried.keys) + len(tried.revoked), Untried: tried.left, Unreadable: tried.unreadable}
	if f.Keys == 0 {
		f.Reason = ReasonNoKey
		return f, nil
	}
	done, err := s.wait(ctx, q.Tenant)
	if err != nil {
		return Finding{}, err
	}
	defer done()
	computing, cancel := context.WithTimeout(ctx, s.maxTime)
	defer cancel()
	best, err := s.examine(computing, tried, q.Text, &f)
	var coded *fault.Error
	switch {
	case err == nil:
		return s.tell(q.Tenant, f, best)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return Finding{}, ended(ctx, fault.Wrap(err, fault.CodeInvalidValue, "text", fault.Say("watermark.too_long")).WithParam("text"))
	case errors.As(err, &coded):
		return Finding{}, err
	}
	return Finding{}, fault.Wrap(err, fault.CodeInternal)
}

// wait returns once it is the turn of a detection, which lasts until done is called.
func (s *Service) wait(caller context.Context, tenant string) (done func(), err error) {
	ctx, cancel := context.WithTimeout(caller, s.maxWait)
	defer cancel()
	p, leave := s.join(tenant)
	busy := fault.New(fault.CodeConcurrency, fault.Say("watermark.examinations"), 1).WithRetryAfter(s.maxWait)
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ended(caller, busy)
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		<-p.turn
		leave()
		return nil, ended(caller, busy)
	}
	return func() {
		<-s.turn
		<-p.turn
		leave()
	}, nil
}

// join returns the place of a tenant, which is forgotten once all who asked have left.
func (s *Service) join(tenant string) (p *place, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p = s.places[tenant]
	if p == nil {
		p = &place{turn: make(chan struct{}, 1)}
		s.places[tenant] = p
	}
	p.asks++
	return p, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.asks--; p.asks == 0 {
			delete(s.places, tenant)
		}
	}
}

// ended is the error of a detection that was given up: that of the caller who left, else why.
func ended(caller context.Context, why error) error {
	if err := caller.Err(); err != nil {
		return fmt.Errorf("look for a watermark: %w", err)
	}
	return why
}

// reading is a way to read a text.
type reading struct {
	tokens []int32
	ends   []int
}

// read returns the ways in which the models read a text, each once.
func (s *Service) read(ctx context.Context, text string) (readings []reading, err error) {
	for _, tokenize := range s.cfg.Tokenizers() {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read the text: %w", err)
		}
		tokens, ends := tokenize(text)
		if !slices.ContainsFunc(readings, func(other reading) bool { return slices.Equal(other.tokens, tokens) }) {
			readings = append(readings, reading{tokens, ends})
		}
	}
	return readings, nil
}

// said is what a detector says of a reading.
type said struct {
	watermark.Result
	of reading
}

// examine returns what is said of the reading in which the mark is strongest; CannotSay without one. What would take too long is refused before it begins.
// Revoked keys are asked only where the others find nothing: who has one of them could else drown the mark of a good one in a passage of his own.
func (s *Service) examine(ctx context.Context, tried tried, text string, f *Finding) (best said, err error) {
	best.Verdict = watermark.CannotSay
	readings, err := s.read(ctx, text)
	if f.Readings = len(readings); err != nil || len(readings) == 0 {
		return best, err
	}
	work := 0
	for _, r := range readings {
		for _, k := range slices.Concat(tried.keys, tried.revoked) {
			work += len(r.tokens) * k.Params().SubKeys
		}
	}
	if work > s.maxWork {
		return best, fault.New(fault.CodeInvalidValue, "text", fault.Say("watermark.too_long")).WithParam("text")
	}
	groups := slices.DeleteFunc([][]*watermark.Key{tried.keys, tried.revoked}, func(keys []*watermark.Key) bool { return len(keys) == 0 })
	for _, keys := range groups {
		best, err = s.strongest(ctx, keys, readings, len(groups)*len(readings))
		if err != nil || best.Verdict == watermark.Found || best.Verdict == watermark.Indication {
			return best, err
		}
	}
	return best, nil
}

// strongest returns what is said of the reading in which the mark of one of the keys is strongest. p pays for so many attempts.
func (s *Service) strongest(ctx context.Context, keys []*watermark.Key, readings []reading, attempts int) (best said, err error) {
	best.Verdict = watermark.CannotSay
	d, err := watermark.NewDetector(watermark.DetectorConfig{Keys: keys, Attempts: attempts, Least: LeastTokens})
	if err != nil {
		return best, err
	}
	for i, r := range readings {
		res, err := d.Detect(ctx, r.tokens)
		if err != nil {
			return best, err
		}
		can, could := res.Verdict != watermark.CannotSay, best.Verdict != watermark.CannotSay
		if i == 0 || can && (!could || res.LogP < best.LogP) || !can && !could && res.Counted > best.Counted {
			best = said{res, r}
		}
	}
	return best, nil
}

// tell completes a finding.
func (s *Service) tell(tenant string, f Finding, best said) (Finding, error) {
	if f.Readings == 0 {
		f.Reason = ReasonTokenizer
		return f, nil
	}
	f.Verdict, f.P, f.Log10P, f.Tokens, f.Counted = best.Verdict, best.P, best.LogP/math.Ln10, len(best.of.tokens), best.Counted
	if f.Verdict == watermark.CannotSay {
		f.Reason = ReasonShort
	}
	if best.Best == nil {
		return f, nil
	}
	all, err := s.cfg.Store.List(tenant)
	if err != nil {
		return Finding{}, err
	}
	i := slices.IndexFunc(all, func(k Key) bool { return k.ID == best.Best.Key.ID() })
	if i < 0 { // the tenant has left meanwhile
		return Finding{}, unreadable(fmt.Errorf("the watermark key %s is gone", best.Best.Key.ID()))
	}
	f.Key, f.Begin, f.End = &all[i], best.Best.Begin, best.Best.End
	if f.Verdict == watermark.Found && !f.Key.Revoked.IsZero() {
		f.Verdict = watermark.Indication
	}
	if ends := best.of.ends; f.End <= len(ends) && f.Begin < f.End {
		f.Passage = &Passage{End: ends[f.End-1]}
		if f.Begin > 0 {
			f.Passage.Begin = ends[f.Begin-1]
		}
		f.Passage.Begin = max(0, f.Passage.Begin)
	}
	return f, nil
}
