package tenantmark

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

// MaxText is how many bytes of text are examined at most.
const MaxText = 64 << 10

// LeastTokens is how many different tokens, with those before each, a text must have for a verdict. Its whole may be longer.
const LeastTokens = 64

// maxTime is how long a detection computes at most, its wait for others included.
const maxTime = 20 * time.Second

// ServiceConfig is what a service works on.
type ServiceConfig struct {
	Store *Store
	// Tokenizers returns what makes tokens of texts, one for each model of this installation that marks.
	Tokenizers func() []func(text string) []int32
}

// Service says whether texts have a mark.
type Service struct {
	cfg  ServiceConfig
	turn chan struct{} // of the one detection that computes
	max  time.Duration
}

// NewService returns a service.
func NewService(cfg ServiceConfig) *Service {
	return &Service{cfg: cfg, turn: make(chan struct{}, 1), max: maxTime}
}

// Reason is why nothing can be said of a text.
type Reason string

// The reasons.
const (
	ReasonShort     Reason = "short"     // it has less than LeastTokens
	ReasonNoKey     Reason = "key"       // no answer of the tenant was ever marked
	ReasonTokenizer Reason = "tokenizer" // no model is here by whose tokens it could be read
)

// Finding is what is said of a text.
type Finding struct {
	Verdict watermark.Verdict
	Reason  Reason // of CannotSay
	// P is how likely a text that was written without the keys of the tenant scores as high, all that was tried taken into account; Log10P is its decimal
	// logarithm, also where P is too small to be told from 0. It is 1 of CannotSay.
	P, Log10P float64
	// Tokens is how many the text has, Counted how many of them count, as the tokenizer has it with which the mark is strongest.
	Tokens, Counted int
	// Key has marked it; nil unless the verdict is Found or Indication. Begin and End are the tokens between which the mark is strongest, End excluded.
	Key        *Key
	Begin, End int
	// What was tried: keys of the tenant, and ways to read the text that differ.
	Keys, Readings int
}

// Detect says whether a text has the mark of a tenant. It keeps nothing of the text. Errors: CodeInvalidValue for a text that is too long, or takes too
// long; CodeConcurrency while others are examined; CodeDatabaseUnavailable; that of ctx.
func (s *Service) Detect(ctx context.Context, tenant, text string) (Finding, error) {
	if len(text) > MaxText {
		return Finding{}, fault.New(fault.CodeInvalidValue, "text", fault.Say("watermark.text_bytes", MaxText)).WithParam("text")
	}
	keys, err := s.cfg.Store.Keys(ctx, tenant)
	if err != nil {
		return Finding{}, err
	}
	readings := s.read(text)
	f := Finding{Verdict: watermark.CannotSay, P: 1, Keys: len(keys), Readings: len(readings)}
	switch {
	case len(keys) == 0:
		f.Reason = ReasonNoKey
		return f, nil
	case len(readings) == 0:
		f.Reason = ReasonTokenizer
		return f, nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.max)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-bounded.Done():
		return Finding{}, ended(ctx, fault.New(fault.CodeConcurrency, fault.Say("watermark.examinations"), 1).WithRetryAfter(s.max))
	}
	best, err := examine(bounded, keys, readings)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Finding{}, ended(ctx, fault.Wrap(err, fault.CodeInvalidValue, "text", fault.Say("watermark.too_long")).WithParam("text"))
	}
	if err != nil {
		return Finding{}, fault.Wrap(err, fault.CodeInternal)
	}
	return s.tell(tenant, f, best)
}

// ended is the error of a detection that was given up: that of the caller who left, else why.
func ended(caller context.Context, why error) error {
	if err := caller.Err(); err != nil {
		return fmt.Errorf("look for a watermark: %w", err)
	}
	return why
}

// read returns the ways in which the models read a text, each once.
func (s *Service) read(text string) (readings [][]int32) {
	for _, tokens := range s.cfg.Tokenizers() {
		ids := tokens(text)
		if !slices.ContainsFunc(readings, func(other []int32) bool { return slices.Equal(other, ids) }) {
			readings = append(readings, ids)
		}
	}
	return readings
}

// reading is what a detector says of a way to read a text.
type reading struct {
	watermark.Result
	tokens int
}

// examine returns what is said of the reading in which the mark is strongest. p of each pays for all of them.
func examine(ctx context.Context, keys []*watermark.Key, readings [][]int32) (best reading, err error) {
	d, err := watermark.NewDetector(watermark.DetectorConfig{Keys: keys, Attempts: len(readings), Least: LeastTokens})
	if err != nil {
		return reading{}, err
	}
	for i, tokens := range readings {
		res, err := d.Detect(ctx, tokens)
		if err != nil {
			return reading{}, err
		}
		said, before := res.Verdict != watermark.CannotSay, best.Verdict != watermark.CannotSay
		if i == 0 || said && (!before || res.LogP < best.LogP) || !said && !before && res.Counted > best.Counted {
			best = reading{res, len(tokens)}
		}
	}
	return best, nil
}

// tell completes a finding.
func (s *Service) tell(tenant string, f Finding, best reading) (Finding, error) {
	f.Verdict, f.P, f.Log10P, f.Tokens, f.Counted = best.Verdict, best.P, best.LogP/math.Ln10, best.tokens, best.Counted
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
	return f, nil
}
