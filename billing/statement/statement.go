package statement

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"golang.org/x/text/currency"

	"github.com/sluice-project/sluice/billing/price"
)

// State says whether figures may still change.
type State string

// The states.
const (
	Provisional State = "provisional"
	Closed      State = "closed"
)

// Statement is what one tenant used in one month, and what it costs. The order of its fields is that of the JSON form, which the digest
// covers.
type Statement struct {
	Schema   int       `json:"schema"`
	Number   string    `json:"number"`
	State    State     `json:"state"`
	Tenant   string    `json:"tenant"`
	Month    string    `json:"month"` // 2026-10
	Zone     string    `json:"zone"`  // whose midnights the month begins and ends at
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"` // the first instant behind it
	AsOf     time.Time `json:"as_of"` // when the figures were read; of a closed one, when it was closed
	ClosedBy string    `json:"closed_by,omitempty"`
	Currency string    `json:"currency"`
	Books    []Book    `json:"price_books"`

	Lines       []Line       `json:"lines"`
	Late        []Line       `json:"late"` // of months that were closed before they were billed
	Corrections []Correction `json:"corrections"`
	Energy      []Energy     `json:"energy"`

	Requests  int64    `json:"requests"`
	Estimated int64    `json:"estimated"` // of these, requests whose token counts the engine did not report
	Amounts   Amounts  `json:"amounts"`
	Rounding  Rounding `json:"rounding"`

	Usage []Usage `json:"usage"` // what the lines are made of

	canonical []byte // of a statement that was read
}

// Book is a price book that rated some of the usage.
type Book struct {
	Version       string    `json:"version"` // such as v3; the price_book of usage and lines may have /batch behind it
	Digest        string    `json:"digest"`
	EffectiveFrom time.Time `json:"effective_from"`
}

// Usage is the exact sum of a group of requests.
type Usage struct {
	Month        string `json:"month,omitempty"` // of late usage
	Action       string `json:"action"`
	Model        string `json:"model"`
	Book         string `json:"price_book"` // with /batch behind it where it rated at its prices for the queue class batch
	EnergyMethod string `json:"energy_method"`

	Requests   int64 `json:"requests"`
	Estimated  int64 `json:"estimated"`
	Prompt     int64 `json:"prompt_tokens"` // cached ones included
	Cached     int64 `json:"cached_tokens"`
	Completion int64 `json:"completion_tokens"`
	Cost       int64 `json:"cost_nano"`
	Energy     int64 `json:"energy_uj"`
}

// Group identifies a group of requests.
type Group struct{ Month, Action, Model, Book, EnergyMethod string }

// Group returns what the requests have in common.
func (u Usage) Group() Group { return Group{u.Month, u.Action, u.Model, u.Book, u.EnergyMethod} }

// The kinds of lines.
const (
	Input       = "input"
	CachedInput = "cached_input"
	Output      = "output"
	Embedding   = "embedding"
	Rerank      = "rerank"
	Ingestion   = "ingestion" // the vectors of documents that were taken in
	Unpriced    = "unpriced"  // tokens of all kinds, at the amount that was billed
)

// Line is one kind of tokens of one model at one price.
type Line struct {
	Month     string `json:"month,omitempty"` // of late usage
	Kind      string `json:"kind"`
	Model     string `json:"model"`
	Book      string `json:"price_book"`
	Quantity  int64  `json:"quantity"`        // tokens
	UnitPrice *int64 `json:"unit_price_nano"` // of one token; null for [Unpriced]
	Amount    int64  `json:"amount_nano"`
}

// Correction changes what a tenant pays, without touching what was billed.
type Correction struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Month   string    `json:"month,omitempty"`   // that it is about, or
	Request string    `json:"request,omitempty"` // that it is about
	Model   string    `json:"model,omitempty"`
	Key     string    `json:"key,omitempty"`
	Amount  int64     `json:"amount_nano"` // what more is to be paid; below 0: less
	Reason  string    `json:"reason"`
	Actor   string    `json:"actor"`
}

// Energy is the energy of the requests whose figures came about in one way: measured, modelled or declared; "" where nothing is known.
type Energy struct {
	Method      string `json:"method"`
	Requests    int64  `json:"requests"`
	Microjoules int64  `json:"energy_uj"`
}

// Amounts are sums of 10⁻⁹ currency unit. Total is the sum of the three above it; Payable is Total, rounded.
type Amounts struct {
	Usage       int64 `json:"usage_nano"`
	Late        int64 `json:"late_nano"`
	Corrections int64 `json:"corrections_nano"`
	Total       int64 `json:"total_nano"`
	Payable     int64 `json:"payable_nano"`
}

// Rounding says how Payable came about.
type Rounding struct {
	Rule     string `json:"rule"`
	Decimals int    `json:"decimals"`
}

// HalfUp rounds to the nearest amount, and from the middle away from zero.
const HalfUp = "half_up"

// Rates returns the rate of a model in a price book; false if the book or the price is not there.
type Rates func(book, model string, embed bool) (price.Rate, bool)

// Complete fills in what follows from header, Usage and Corrections: lines, energy, sums and rounding.
func (s *Statement) Complete(rates Rates) error {
	s.Schema, s.canonical = 1, nil
	if s.Usage == nil {
		s.Usage = []Usage{}
	}
	slices.SortFunc(s.Usage, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Book, b.Book), cmp.Compare(a.EnergyMethod, b.EnergyMethod))
	})
	slices.SortFunc(s.Corrections, func(a, b Correction) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	s.Lines, s.Late, s.Energy, s.Amounts = []Line{}, []Line{}, []Energy{}, Amounts{}
	s.Requests, s.Estimated = 0, 0
	if err := s.addEnergy(); err != nil {
		return err
	}
	for _, u := range merged(s.Usage) {
		lines := linesOf(u, rates)
		sum, list := &s.Amounts.Usage, &s.Lines
		if u.Month != "" {
			sum, list = &s.Amounts.Late, &s.Late
		}
		*list = append(*list, lines...)
		for _, l := range lines {
			if err := add(sum, l.Amount); err != nil {
				return err
			}
		}
	}
	for _, c := range s.Corrections {
		if err := add(&s.Amounts.Corrections, c.Amount); err != nil {
			return err
		}
	}
	for _, part := range []int64{s.Amounts.Usage, s.Amounts.Late, s.Amounts.Corrections} {
		if err := add(&s.Amounts.Total, part); err != nil {
			return err
		}
	}
	s.Rounding = Rounding{Rule: HalfUp, Decimals: decimalsOf(s.Currency)}
	var err error
	s.Amounts.Payable, err = halfUp(s.Amounts.Total, s.Rounding.Decimals)
	return err
}

func (s *Statement) addEnergy() error {
	for _, u := range s.Usage {
		i := slices.IndexFunc(s.Energy, func(e Energy) bool { return e.Method == u.EnergyMethod })
		if i < 0 {
			i = len(s.Energy)
			s.Energy = append(s.Energy, Energy{Method: u.EnergyMethod})
		}
		for _, p := range []struct {
			sum  *int64
			part int64
		}{{&s.Energy[i].Requests, u.Requests}, {&s.Energy[i].Microjoules, u.Energy}, {&s.Requests, u.Requests}, {&s.Estimated, u.Estimated}} {
			if err := add(p.sum, p.part); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(s.Energy, func(a, b Energy) int { return cmp.Compare(a.Method, b.Method) })
	return nil
}

// merged adds up groups that differ only in how their energy is known. They are in order.
func merged(groups []Usage) []Usage {
	var out []Usage
	for _, u := range groups {
		u.EnergyMethod = ""
		if n := len(out); n > 0 && out[n-1].Group() == u.Group() {
			last := &out[n-1]
			last.Prompt, last.Cached, last.Completion, last.Cost = last.Prompt+u.Prompt, last.Cached+u.Cached, last.Completion+u.Completion, last.Cost+u.Cost
			continue
		}
		out = append(out, u)
	}
	return out
}

// linesOf prices a group. Its lines sum to what was billed.
func linesOf(u Usage, rates Rates) []Line {
	line := func(kind string, quantity, unit int64) (Line, bool) {
		hi, lo := bits.Mul64(uint64(quantity), uint64(unit))
		return Line{Month: u.Month, Kind: kind, Model: u.Model, Book: u.Book, Quantity: quantity, UnitPrice: &unit, Amount: int64(lo)}, hi == 0 && lo < 1<<63 && quantity >= 0 && unit >= 0
	}
	kind, embeds := map[string]string{"embeddings": Embedding, "rerank": Rerank, "rag.ingest": Ingestion}[u.Action]
	rate, known := rates(u.Book, u.Model, embeds)
	parts := []struct {
		kind           string
		quantity, unit int64
	}{{Input, u.Prompt - u.Cached, rate.Prompt}, {CachedInput, u.Cached, rate.Cached}, {Output, u.Completion, rate.Completion}}
	if embeds {
		parts = parts[:1]
		parts[0].kind, parts[0].quantity = kind, u.Prompt
	}
	var lines []Line
	rest := u.Cost
	for _, p := range parts {
		l, fits := line(p.kind, p.quantity, p.unit)
		known = known && fits
		rest -= l.Amount
		if p.quantity != 0 {
			lines = append(lines, l)
		}
	}
	if known && rest == 0 {
		return lines
	}
	return []Line{{Month: u.Month, Kind: Unpriced, Model: u.Model, Book: u.Book, Quantity: u.Prompt + u.Completion, Amount: u.Cost}}
}

// add adds part to sum and refuses to wrap around.
func add(sum *int64, part int64) error {
	total := *sum + part
	if (total > *sum) != (part > 0) && part != 0 {
		return errors.New("a total of the statement exceeds 63 bits")
	}
	*sum = total
	return nil
}

// decimalsOf returns how many decimals amounts of a currency are paid in.
func decimalsOf(code string) int {
	unit, err := currency.ParseISO(code)
	if err != nil {
		return 2
	}
	scale, _ := currency.Standard.Rounding(unit)
	return min(scale, 9)
}

func halfUp(nano int64, decimals int) (rounded int64, err error) {
	step := pow10(9 - decimals)
	rest := nano % step
	rounded = nano - rest
	switch {
	case rest > 0 && rest >= step-rest:
		err = add(&rounded, step)
	case rest < 0 && -rest >= step+rest:
		err = add(&rounded, -step)
	}
	return rounded, err
}

// Parse reads the canonical form of a statement, which must have the digest. What it returns keeps that form: a later release may know more
// fields.
func Parse(content []byte, digest string) (Statement, error) {
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest {
		return Statement{}, errors.New("the content does not have its digest: it was altered")
	}
	s := Statement{}
	if err := json.Unmarshal(content, &s); err != nil {
		return Statement{}, fmt.Errorf("decode statement: %w", err)
	}
	s.canonical = slices.Clone(content)
	return s, nil
}

// Canonical returns the bytes that the digest covers.
func (s Statement) Canonical() ([]byte, error) {
	if s.canonical != nil {
		return s.canonical, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // other programs that write JSON escape no more than they must
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("encode statement: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Digest returns the hexadecimal SHA-256 of the content.
func (s Statement) Digest() (string, error) {
	b, err := s.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
