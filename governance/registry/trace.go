package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// LeastShare is the part of a text that an answer must have to be named for one wording alone, if others have more.
	LeastShare = 0.1

	maxAsked   = 256 // grams that are looked up
	rankedPage = 500 // candidates that are looked for at once
	askAtOnce  = 400 // blocks in one statement
	strong     = 4   // wordings, apart from each other, that make strong evidence
)

// Evidence says what a match proves.
type Evidence string

// The grades of evidence. Only the first is of all of the text, by a keyed digest: white space and width of characters aside, it is what the answer says. The others say that some wordings are the
// same, [fingerprint.Gram] characters each, none of which overlaps another: one alone may be a sentence that both quote. None says that the wordings stand in the
// answer in the order of the text, and none, the first included, who wrote them first.
const (
	Exact    Evidence = "exact"
	Strong   Evidence = "strong"   // four wordings or more
	Moderate Evidence = "moderate" // two or three
	Weak     Evidence = "weak"     // one, or only such as very many answers have
)

// Trace is where a text comes from.
type Trace struct {
	Characters int // of the normalised text
	// Common is the part of the text whose wording so many answers have that it tells nothing, from 0 to 1; an estimate.
	Common float64
	// Thinned: the text is so long that only some of its wordings were looked up, spread over all of it.
	Thinned bool
	// Enabled: answers are registered now.
	Enabled bool
	// Since is when the first answer of the tenant was registered; zero if none was. What left before is not found, nor what left while answers were not registered.
	Since time.Time
	// Matches are answers that have the text or parts of it, the best first, and of equal ones the oldest.
	Matches []Match
	// More: other answers match as well.
	More bool
}

// Match is an answer that has the text, or parts of it.
type Match struct {
	Record   string // audit record of its outcome
	Request  string
	Choice   int
	Time     time.Time
	Evidence Evidence
	// Verified is how many normalised characters of the text stand in wordings that the answer has, word for word. Of what lies between them nothing is known.
	Verified int
	// Share estimates which part of the text this answer has, from 0 to 1, of what is not common; of common wording only if OnlyCommon is set. 1 does not say
	// that the text is unchanged.
	Share      float64
	OnlyCommon bool
	// Longest is the length of the longest part, in normalised characters.
	Longest int
	// Characters is the length of the answer, in normalised characters.
	Characters int
	// Spans are the parts of the text that were verified, in order.
	Spans []Span
}

// Span is a part of the text that was asked, in its characters, from 0; End is behind the last.
type Span struct{ Start, End int }

// Trace looks for the answers of a tenant that a text, or a part of it, comes from. Equal wordings of several answers make several matches. Errors:
// CodeInvalidValue for a text of less than [fingerprint.Shortest] letters and numerals, or of more than [MaxText] bytes; CodeDatabaseUnavailable; CodeInternal for an index that
// somebody changed.
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
	q := key.Ask(text, maxAsked)
	if q.Characters < fingerprint.Shortest {
		return Trace{}, fault.New(fault.CodeInvalidValue, "text", fault.Say("registry.too_short", fingerprint.Shortest, q.Characters)).WithParam("text")
	}
	t := trace{Service: s, tenant: tenant, question: q, asked: q.Asked}
	for _, x := range append([]string{text}, s.cfg.Variants(text)...) {
		t.equals = append(t.equals, digestOf(key, x))
	}
	err = database.Snapshot(ctx, s.db, t.run)
	if errors.Is(err, errBlock) { // waiting mends nothing
		return Trace{}, fault.Wrap(fmt.Errorf("trace a text: %w", err), fault.CodeInternal)
	}
	if err != nil {
		return Trace{}, database.Unavailable("trace a text", err)
	}
	return t.Trace, nil
}

func digestOf(key *fingerprint.Key, text string) []byte {
	p := key.NewPrinter(0)
	_, _ = p.WriteString(text) // it takes everything
	digest := p.Prints().Digest
	return digest[:]
}

// trace is one question on its way.
type trace struct {
	*Service
	Trace

	tenant   string
	question fingerprint.Question
	equals   [][]byte // digests of what is equal to the text
	asked    []fingerprint.Asked
	found    map[uint64]*posting
	sieve    [sieveWords]uint64 // a bit for the low bits of each fingerprint that is in found
}

const sieveWords = 1 << 10

func (t *trace) run(tx *gorm.DB) error {
	t.Trace, t.found = Trace{Enabled: t.cfg.Enabled, Characters: t.question.Characters, Thinned: t.question.Thinned, Matches: []Match{}}, map[uint64]*posting{}
	var begun []int64
	if err := tx.Model(&tenantRow{}).Where("tenant = ?", t.tenant).Pluck("created_at", &begun).Error; err != nil {
		return err
	}
	if len(begun) > 0 {
		t.Since = time.UnixMicro(begun[0]).UTC()
	}
	exact, err := t.exact(tx)
	if err != nil {
		return err
	}
	if len(exact) > 0 { // the text was not changed: what else has 40 characters of it in a row shares what windows have selected
		t.asked = slices.DeleteFunc(t.asked, func(a fingerprint.Asked) bool { return a.Windows == 0 })
	}
	if err := t.lookUp(tx); err != nil {
		return err
	}
	t.nameExact(exact)
	return t.nameRanked(tx, exact, t.rank())
}

// exact returns the entries that are the whole text: the oldest and the newest if there are many, and then sets More.
func (t *trace) exact(tx *gorm.DB) ([]entryRow, error) {
	oldest, err := t.equal(tx, false, MaxMatches+1)
	if err != nil || len(oldest) <= MaxMatches {
		return oldest, err
	}
	t.More = true
	newest, err := t.equal(tx, true, MaxMatches/2)
	slices.Reverse(newest)
	return append(oldest[:MaxMatches-len(newest)], newest...), err
}

// equal returns so many entries with one of the digests, the oldest first, or the newest. An index has those of one digest in order.
func (t *trace) equal(tx *gorm.DB, newest bool, n int) (rows []entryRow, err error) {
	order, sign := "number", 1
	if newest {
		order, sign = "number DESC", -1
	}
	for _, digest := range t.equals {
		var some []entryRow
		if err := tx.Select(entryColumns()).Where("tenant = ? AND digest = ?", t.tenant, digest).Order(order).Limit(n).Find(&some).Error; err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, func(a, b entryRow) int { return sign * cmp.Compare(a.Number, b.Number) })
	rows = slices.CompactFunc(rows, func(a, b entryRow) bool { return a.Number == b.Number }) // variants may be equal
	return rows[:min(len(rows), n)], nil
}

func (t *trace) isEqual(r entryRow) bool {
	return slices.ContainsFunc(t.equals, func(digest []byte) bool { return bytes.Equal(r.Digest, digest) })
}

// lookUp finds the entries of all grams.
func (t *trace) lookUp(tx *gorm.DB) error {
	for _, a := range t.asked {
		t.found[a.Print] = &posting{print: a.Print}
		t.sieve[a.Print>>6%sieveWords] |= 1 << (a.Print % 64)
	}
	var segs []segmentRow
	if err := tx.Select(segmentColumns()).Where("tenant = ? AND state = ?", t.tenant, live).Order("first").Find(&segs).Error; err != nil {
		return err
	}
	blocks, err := t.readBlocks(tx, segs)
	if err != nil {
		return err
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

// wants reports whether a fingerprint is one that was asked for. Of the many that blocks have, few reach the map.
func (t *trace) wants(p uint64) bool {
	return t.sieve[p>>6%sieveWords]>>(p%64)&1 == 1 && t.found[p] != nil
}

// readBlocks reads the blocks that may have a fingerprint that was asked for, those of many small segments in one statement.
func (t *trace) readBlocks(tx *gorm.DB, segs []segmentRow) (map[int64][]blockRow, error) {
	blocks := map[int64][]blockRow{}
	var some blockQuery
	for _, seg := range segs {
		buckets := map[int64]bool{}
		for print := range t.found {
			buckets[bucketOf(print, seg.Bits)] = true
		}
		for part := range slices.Chunk(slices.Collect(maps.Keys(buckets)), askAtOnce) {
			if some.n+len(part) > askAtOnce {
				if err := some.read(tx, blocks); err != nil {
					return nil, err
				}
			}
			some.add(seg.ID, part)
		}
	}
	return blocks, some.read(tx, blocks)
}

// blockQuery asks for blocks of several segments at once.
type blockQuery struct {
	where []string
	args  []any
	n     int // blocks
}

func (q *blockQuery) add(segment int64, buckets []int64) {
	q.where, q.args, q.n = append(q.where, "segment = ? AND bucket IN ?"), append(q.args, segment, buckets), q.n+len(buckets)
}

// read reads what was added, and begins anew.
func (q *blockQuery) read(tx *gorm.DB, blocks map[int64][]blockRow) error {
	if q.n == 0 {
		return nil
	}
	where, args := strings.Join(q.where, " OR "), q.args
	*q = blockQuery{}
	return collect(tx.Where(where, args...), blocks)
}

func collect(q *gorm.DB, blocks map[int64][]blockRow) error {
	rows, err := q.Model(&blockRow{}).Select("segment", "bucket", "data").Rows()
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	for rows.Next() {
		var b blockRow
		if err := rows.Scan(&b.Segment, &b.Bucket, &b.Data); err != nil {
			return err
		}
		blocks[b.Segment] = append(blocks[b.Segment], b)
	}
	return rows.Err()
}

// candidate is an entry that has some of the grams.
type candidate struct {
	number     int64
	has        []int // places in asked, ascending
	windows    int   // that these stand for
	apart      int   // how many of them there are, none of which overlaps another
	share      float64
	onlyCommon bool
}

// isCommon reports whether a gram is one of so many answers that its posting does not name them all.
func (t *trace) isCommon(a fingerprint.Asked) bool {
	p := t.found[a.Print]
	return p.total > int64(len(p.numbers))
}

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
	rare := t.candidates(windows-commonWindows, func(a fingerprint.Asked) bool { return !t.isCommon(a) })
	if out := namely(rare); len(out) > 0 {
		return out
	}
	if commonWindows > 0 {
		all := namely(t.candidates(windows, func(fingerprint.Asked) bool { return true }))
		for i := range all {
			all[i].onlyCommon = true
		}
		if len(all) > 0 {
			return all
		}
	}
	return slices.DeleteFunc(rare, func(c candidate) bool { return c.windows == 0 }) // less than a window may be a phrase
}

// namely leaves out who has one wording alone that is little of the text. He is named if nobody has more.
func namely(all []candidate) (out []candidate) {
	for _, c := range all {
		if c.share >= LeastShare || c.apart > 1 {
			out = append(out, c)
		}
	}
	return out
}

// candidates ranks entries by the grams that count: by how many there are apart, then by the windows of these.
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
			if last := len(c.has) - 1; last >= 0 && c.has[last] == i { // named twice
				continue
			}
			c.has = append(c.has, i)
			c.windows += a.Windows
		}
	}
	var out []candidate
	for _, c := range byNumber {
		c.apart, c.share = t.apart(c.has), float64(c.windows)/float64(max(windows, 1))
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.apart, a.apart), cmp.Compare(b.windows, a.windows), cmp.Compare(len(b.has), len(a.has)), cmp.Compare(a.number, b.number))
	})
	return out
}

// apart counts grams none of which overlaps another.
func (t *trace) apart(has []int) (n int) {
	end := 0
	for _, i := range has {
		if at := t.asked[i].At; at >= end {
			n++
			end = at + fingerprint.Gram
		}
	}
	return n
}

func (t *trace) nameExact(exact []entryRow) {
	for _, r := range exact {
		m := matchOf(r)
		m.Evidence, m.Share, m.Verified, m.Longest, m.Spans = Exact, 1, t.Characters, t.Characters, []Span{{0, t.question.Length}}
		t.Matches = append(t.Matches, m)
	}
}

// nameRanked adds the best candidates that there still are.
func (t *trace) nameRanked(tx *gorm.DB, exact []entryRow, ranked []candidate) error {
	named := map[int64]bool{}
	for _, r := range exact {
		named[r.Number] = true
	}
	for page := range slices.Chunk(ranked, rankedPage) {
		numbers := make([]int64, len(page))
		for i, c := range page {
			numbers[i] = c.number
		}
		var rows []entryRow
		if err := tx.Select(entryColumns()).Where("tenant = ? AND number IN ?", t.tenant, numbers).Find(&rows).Error; err != nil {
			return err
		}
		byNumber := map[int64]entryRow{}
		for _, r := range rows {
			byNumber[r.Number] = r
		}
		for _, c := range page {
			r, ok := byNumber[c.number]
			if !ok || named[c.number] || t.isEqual(r) { // gone, or one of those that are equal
				continue
			}
			if len(t.Matches) == MaxMatches {
				t.More = true
				return nil
			}
			t.Matches = append(t.Matches, t.matchOf(c, r))
		}
	}
	return nil
}

func matchOf(r entryRow) Match {
	return Match{Record: r.Record, Request: r.Request, Choice: int(r.Choice), Time: time.UnixMicro(r.Time).UTC(), Characters: int(r.Characters)}
}

func (t *trace) matchOf(c candidate, r entryRow) Match {
	m := matchOf(r)
	m.Share, m.OnlyCommon, m.Evidence = c.share, c.onlyCommon, Weak
	switch {
	case c.onlyCommon:
	case c.apart >= strong:
		m.Evidence = Strong
	case c.apart > 1:
		m.Evidence = Moderate
	}
	for i := 0; i < len(c.has); {
		first := t.asked[c.has[i]]
		last := first
		for i++; i < len(c.has) && t.asked[c.has[i]].At < last.At+fingerprint.Gram; i++ { // they overlap: those that only touch may stand apart in the answer
			last = t.asked[c.has[i]]
		}
		length := last.At + fingerprint.Gram - first.At
		m.Spans, m.Verified, m.Longest = append(m.Spans, Span{first.Start, last.End}), m.Verified+length, max(m.Longest, length)
	}
	return m
}
