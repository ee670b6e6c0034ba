package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

const (
	// MaxText is the longest text that is traced, in bytes.
	MaxText = 256 << 10
	// MaxMatches is how many answers a trace names.
	MaxMatches = 10
	// LeastShare is the part of a text that an answer must have to be named.
	LeastShare = 0.1

	maxAsked   = 256 // grams that are looked up, evenly over a longer text
	maxRanked  = 5 * MaxMatches
	askAtOnce  = 400 // blocks in one statement
	oneBlockAt = 400 // segments of one block in one statement
)

// Trace is where a text comes from.
type Trace struct {
	Characters int // of the normalised text
	// Common is the part of the text whose wording so many answers have that it tells nothing, from 0 to 1.
	Common float64
	// Matches are answers that have the text or parts of it, the best first.
	Matches []Match
	// More: other answers match as well.
	More bool
}

// Match is an answer that has the text, or parts of it.
type Match struct {
	Record  string // audit record of its outcome
	Request string
	Choice  int
	Time    time.Time
	// Exact: the text is the whole answer, but for what normalising removes.
	Exact bool
	// Share is the part of the text that this answer has, from 0 to 1, of what is not common; of common wording only if OnlyCommon is set.
	Share      float64
	OnlyCommon bool
	// Longest is the length of the longest part, in normalised characters.
	Longest int
	// Characters is the length of the answer, in normalised characters.
	Characters int
	// Spans are the parts of the text that the answer has, in order.
	Spans []Span
}

// Span is a part of the text that was asked, in its characters, from 0; End is behind the last.
type Span struct{ Start, End int }

// Trace looks for the answers of a tenant that a text, or a part of it, comes from. Equal wordings of several answers make several matches. Errors:
// CodeInvalidValue for a text of less than [fingerprint.Shortest] letters and numerals, or of more than [MaxText] bytes; CodeDatabaseUnavailable.
func (s *Service) Trace(ctx context.Context, tenant, text string) (Trace, error) {
	begin := time.Now()
	defer func() { s.metrics.traces.Observe(time.Since(begin).Seconds()) }()
	if len(text) > MaxText {
		return Trace{}, fault.New(fault.CodeInvalidValue, "text", fault.Say("registry.too_long", MaxText)).WithParam("text")
	}
	tenant = database.Text(tenant)
	key, err := s.known(ctx, tenant, true)
	if err != nil {
		return Trace{}, err
	}
	if key == nil { // nothing has left: what is found is nothing, by the same way
		if key, err = fingerprint.NewKey(s.cfg.Suite, seal.Random(fingerprint.SecretSize)); err != nil {
			return Trace{}, fault.Wrap(err, fault.CodeInternal)
		}
	}
	q := key.Ask(text)
	if q.Characters < fingerprint.Shortest {
		return Trace{}, fault.New(fault.CodeInvalidValue, "text", fault.Say("registry.too_short", fingerprint.Shortest, q.Characters)).WithParam("text")
	}
	t := trace{Service: s, tenant: tenant, question: q, asked: evenly(q.Asked, maxAsked)}
	if err = database.Snapshot(ctx, s.db, t.run); err != nil {
		return Trace{}, database.Unavailable("trace a text", err)
	}
	return t.Trace, nil
}

// evenly returns at most n of what was asked, spread over all.
func evenly(asked []fingerprint.Asked, n int) []fingerprint.Asked {
	if len(asked) <= n {
		return asked
	}
	out := make([]fingerprint.Asked, n)
	for i := range out {
		out[i] = asked[i*len(asked)/n]
	}
	return out
}

// trace is one question on its way.
type trace struct {
	*Service
	Trace

	tenant   string
	question fingerprint.Question
	asked    []fingerprint.Asked
	found    map[uint64]*posting
}

func (t *trace) run(tx *gorm.DB) error {
	t.Trace, t.found = Trace{Characters: t.question.Characters, Matches: []Match{}}, map[uint64]*posting{}
	var exact []entryRow
	err := tx.Select(entryColumns()).Where("tenant = ? AND digest = ?", t.tenant, t.question.Digest[:]).Order("number DESC").Limit(MaxMatches + 1).Find(&exact).Error
	if err != nil {
		return err
	}
	if err := t.lookUp(tx); err != nil {
		return err
	}
	ranked := t.rank()
	numbers := make([]int64, len(ranked))
	for i, c := range ranked {
		numbers[i] = c.number
	}
	var rows []entryRow
	if err := tx.Select(entryColumns()).Where("tenant = ? AND number IN ?", t.tenant, numbers).Find(&rows).Error; err != nil {
		return err
	}
	t.name(exact, ranked, rows)
	return nil
}

// lookUp finds the entries of all grams.
func (t *trace) lookUp(tx *gorm.DB) error {
	for _, a := range t.asked {
		t.found[a.Print] = &posting{print: a.Print}
	}
	var segs []segmentRow
	if err := tx.Select(segmentColumns()).Where("tenant = ? AND state = ?", t.tenant, live).Order("first").Find(&segs).Error; err != nil {
		return err
	}
	blocks := map[int64][]blockRow{}
	var small []int64
	for _, seg := range segs {
		if seg.Bits == 0 {
			small = append(small, seg.ID)
			continue
		}
		buckets := map[int64]bool{}
		for print := range t.found {
			buckets[bucketOf(print, seg.Bits)] = true
		}
		if err := readBlocks(tx, blocks, seg.ID, buckets); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(small, oneBlockAt) {
		if err := collect(tx.Where("segment IN ? AND bucket = 0", part), blocks); err != nil {
			return err
		}
	}
	for _, seg := range segs { // in the order of their entries
		for _, b := range blocks[seg.ID] {
			err := decodeBlock(b.Data, b.Bucket, seg.Bits, seg.First, t.wants, func(p posting) { t.found[p.print].add(p.total, p.numbers) })
			if err != nil {
				return fmt.Errorf("segment %d: %w", seg.ID, err)
			}
		}
	}
	return nil
}

func (t *trace) wants(p uint64) bool { return t.found[p] != nil }

func readBlocks(tx *gorm.DB, blocks map[int64][]blockRow, segment int64, buckets map[int64]bool) error {
	ids := make([]int64, 0, len(buckets))
	for b := range buckets {
		ids = append(ids, b)
	}
	for part := range slices.Chunk(ids, askAtOnce) {
		if err := collect(tx.Where("segment = ? AND bucket IN ?", segment, part), blocks); err != nil {
			return err
		}
	}
	return nil
}

func collect(q *gorm.DB, blocks map[int64][]blockRow) error {
	var rows []blockRow
	if err := q.Select("segment", "bucket", "data").Find(&rows).Error; err != nil {
		return err
	}
	for _, b := range rows {
		blocks[b.Segment] = append(blocks[b.Segment], b)
	}
	return nil
}

// candidate is an entry that has some of the grams.
type candidate struct {
	number     int64
	has        []int // places in asked, ascending
	windows    int   // that these stand for
	share      float64
	onlyCommon bool
}

// isCommon reports whether a gram is one of so many answers that its posting does not name them all.
func (t *trace) isCommon(a fingerprint.Asked) bool { return t.found[a.Print].total > common }

// rank returns the entries that have most of what is not common, else of what is.
func (t *trace) rank() []candidate {
	windows, commonWindows := 0, 0
	for _, a := range t.asked {
		if windows += a.Windows; t.isCommon(a) {
			commonWindows += a.Windows
		}
	}
	if windows > 0 {
		t.Common = float64(commonWindows) / float64(windows)
	}
	out := t.candidates(windows-commonWindows, func(a fingerprint.Asked) bool { return !t.isCommon(a) })
	if len(out) == 0 && commonWindows > 0 {
		out = t.candidates(windows, func(fingerprint.Asked) bool { return true })
		for i := range out {
			out[i].onlyCommon = true
		}
	}
	return out
}

// candidates ranks entries by the windows of the grams that count.
func (t *trace) candidates(windows int, counts func(fingerprint.Asked) bool) []candidate {
	byNumber := map[int64]*candidate{}
	for i, a := range t.asked {
		if !counts(a) {
			continue
		}
		for _, n := range t.found[a.Print].numbers {
			c := byNumber[n]
			if c == nil {
				c = &candidate{number: n}
				byNumber[n] = c
			}
			c.has = append(c.has, i)
			c.windows += a.Windows
		}
	}
	var out []candidate
	for _, c := range byNumber {
		if c.share = float64(c.windows) / float64(windows); c.share >= LeastShare {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.windows, a.windows), cmp.Compare(b.number, a.number))
	})
	return out[:min(len(out), maxRanked)]
}

// name fills in the matches: those that are the whole text, then those that have parts of it.
func (t *trace) name(exact []entryRow, ranked []candidate, rows []entryRow) {
	byNumber := map[int64]entryRow{}
	for _, r := range rows {
		byNumber[r.Number] = r
	}
	spans, longest := t.spans(allOf(t.asked))
	for _, r := range exact {
		m := matchOf(r)
		m.Exact, m.Share, m.Spans, m.Longest = true, 1, spans, longest
		t.Matches = append(t.Matches, m)
		delete(byNumber, r.Number)
	}
	var parts []Match
	for _, c := range ranked {
		r, ok := byNumber[c.number]
		if !ok { // it is gone, or exact
			continue
		}
		m := matchOf(r)
		m.Share, m.OnlyCommon = c.share, c.onlyCommon
		m.Spans, m.Longest = t.spans(c.has)
		parts = append(parts, m)
	}
	slices.SortStableFunc(parts, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(b.Longest, a.Longest), b.Time.Compare(a.Time))
	})
	t.Matches = append(t.Matches, parts...)
	if t.More = len(t.Matches) > MaxMatches; t.More {
		t.Matches = t.Matches[:MaxMatches]
	}
}

func allOf(asked []fingerprint.Asked) []int {
	out := make([]int, len(asked))
	for i := range out {
		out[i] = i
	}
	return out
}

func matchOf(r entryRow) Match {
	return Match{Record: r.Record, Request: r.Request, Choice: int(r.Choice), Time: time.UnixMicro(r.Time).UTC(), Characters: int(r.Characters)}
}

// spans makes parts of the text of grams: those that follow each other are one part, and so are those with only common ones between them.
func (t *trace) spans(has []int) (spans []Span, longest int) {
	for i := 0; i < len(has); {
		j := i
		for j+1 < len(has) && t.joined(has[j], has[j+1]) {
			j++
		}
		first, last := t.asked[has[i]], t.asked[has[j]]
		spans = append(spans, Span{first.Start, last.End})
		longest = max(longest, last.At+fingerprint.Gram-first.At)
		i = j + 1
	}
	return spans, longest
}

func (t *trace) joined(a, b int) bool {
	for i := a + 1; i < b; i++ {
		if !t.isCommon(t.asked[i]) {
			return false
		}
	}
	return true
}
