package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, db *gorm.DB) *Service {
	t.Helper()
	s, err := New(Config{DB: db, Keys: keyring.FromBytes(bytes.Repeat([]byte{3}, keyring.MasterSize)), Suite: seal.Intl, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return s
}

// mark is what is kept of an answer whose only alternative is a text.
func mark(t testing.TB, s *Service, tenant string, n int, text string) Mark {
	t.Helper()
	key, err := s.Key(t.Context(), tenant)
	must(t, err)
	a := NewAnswers(key, "")
	a.Text(0, text)
	return Mark{Tenant: tenant, Record: fmt.Sprintf("record-%d", n), Request: fmt.Sprintf("request-%d", n), Subject: fmt.Sprintf("person-%d", n%3), Time: int64(1e15) + int64(n), Data: a.Data()}
}

func keep(t testing.TB, s *Service, marks ...Mark) {
	t.Helper()
	must(t, s.db.Transaction(func(tx *gorm.DB) error { return s.Keep(tx, marks) }))
}

// words makes texts of random words: no two of them share a gram but by chance.
func words(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		for range 3 + r.IntN(7) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return b.String()
}

func traced(t testing.TB, s *Service, tenant, text string) Trace {
	t.Helper()
	out, err := s.Trace(t.Context(), tenant, text)
	must(t, err)
	return out
}

func requests(x Trace) (out []string) {
	for _, m := range x.Matches {
		out = append(out, m.Request)
	}
	return out
}

// TestTrace: answers, excerpts and texts with changes are found, in unmerged and in merged segments, and nothing else is.
func TestTrace(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(1, 1))
		texts := make([]string, 40)
		for i := range texts {
			texts[i] = words(r, 40+r.IntN(60))
			keep(t, s, mark(t, s, "acme", i, texts[i]))
			if i == 30 {
				must(t, s.Merge(t.Context()))
			}
		}
		for i, text := range texts {
			want := []string{fmt.Sprintf("request-%d", i)}
			whole := traced(t, s, "acme", strings.ReplaceAll(text, " ", "\r\n ")+"\n")
			if !slices.Equal(requests(whole), want) || whole.Matches[0].Evidence != Exact || whole.Matches[0].Share != 1 || whole.More {
				t.Fatalf("%d: %+v", i, whole)
			}
			loud := traced(t, s, "acme", "> **"+strings.ToUpper(text)+"**\n")
			if !slices.Equal(requests(loud), want) || loud.Matches[0].Evidence != Strong || loud.Matches[0].Share != 1 {
				t.Fatalf("%d: %+v", i, loud)
			}
			from := r.IntN(len(text) - 60)
			part := traced(t, s, "acme", text[from:from+60])
			if !slices.Equal(requests(part), want) || part.Matches[0].Evidence == Exact || part.Matches[0].Share != 1 || len(part.Matches[0].Spans) != 1 || part.Matches[0].Verified < fingerprint.Gram || part.Matches[0].Record != fmt.Sprintf("record-%d", i) {
				t.Fatalf("%d: %+v", i, part)
			}
			edited := strings.Split(text, " ")
			for k := 7; k < len(edited); k += 20 {
				edited[k] = "changed"
			}
			some := traced(t, s, "acme", strings.Join(edited, " "))
			if !slices.Equal(requests(some), want) || some.Matches[0].Evidence != Strong || some.Matches[0].Share < 0.2 || some.Matches[0].Share == 1 {
				t.Fatalf("%d: %+v", i, some)
			}
			if none := traced(t, s, "acme", words(r, 40)); len(none.Matches) > 0 {
				t.Fatalf("another text comes from %+v", none)
			}
		}
		if other := traced(t, s, "globex", texts[0]); len(other.Matches) > 0 {
			t.Errorf("another tenant finds %+v", other)
		}
		keep(t, s, mark(t, s, "globex", 7, texts[1]))
		if got := requests(traced(t, s, "globex", texts[1])); !slices.Equal(got, []string{"request-7"}) {
			t.Errorf("%v", got)
		}
		if got := requests(traced(t, s, "acme", texts[1])); !slices.Equal(got, []string{"request-1"}) {
			t.Errorf("%v", got)
		}
	})
}

func TestRefusedTexts(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	for _, text := range []string{"", strings.Repeat("a", 39), strings.Repeat("a, \n", 39) + "!", strings.Repeat("数", 39), strings.Repeat("a", MaxText+1)} {
		if _, err := s.Trace(t.Context(), "acme", text); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	if out, err := s.Trace(t.Context(), "acme", strings.Repeat("数", 40)); err != nil || len(out.Matches) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestAlternatives: each alternative has its entry, and what was thought, refused or called is found, too.
func TestAlternatives(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	key, err := s.Key(t.Context(), "acme")
	must(t, err)
	r := rand.New(rand.NewPCG(2, 2))
	first, second, thought, refused, called := words(r, 20), words(r, 20), words(r, 20), words(r, 20), words(r, 20)
	a := NewAnswers(key, "")
	a.Text(1, second)
	a.Call(1, 0, `{"body":"`+called[:50])
	a.Text(0, first)
	a.Call(1, 0, called[50:]+`"}`)
	a.Reasoning(1, thought)
	a.Refusal(2, refused)
	a.Text(3, "")
	a.Text(4, "?!")
	a.Text(5, first[:40]) // less than can be traced
	approved := words(r, 20)
	a.Text(6, "Approved.")
	a.Reasoning(6, approved)
	keep(t, s, Mark{Tenant: "acme", Record: "r", Request: "q", Time: 1, Data: a.Data()})
	for text, choice := range map[string]int{first: 0, second: 1, thought: 1, called: 1, refused: 2, approved: 6} {
		out := traced(t, s, "acme", text)
		if len(out.Matches) != 1 || out.Matches[0].Choice != choice || out.Matches[0].Share != 1 || (out.Matches[0].Evidence == Exact) != (text == first || text == second) {
			t.Errorf("%+v", out)
		}
	}
	var n int64
	must(t, s.db.Model(&entryRow{}).Count(&n).Error)
	if n != 4 {
		t.Errorf("%d entries", n)
	}
	if NewAnswers(key, "").Data() != nil {
		t.Error("nothing has data")
	}
}

// TestCommonWording: what very many answers begin with names none of them, and does not hide which one has the rest.
func TestCommonWording(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(3, 3))
		template := words(r, 60)
		marks := make([]Mark, 300)
		tails := make([]string, len(marks))
		for i := range marks {
			tails[i] = words(r, 20)
			marks[i] = mark(t, s, "acme", i, template+" "+tails[i])
		}
		for part := range slices.Chunk(marks, 30) {
			keep(t, s, part...)
		}
		must(t, s.Merge(t.Context()))
		only := traced(t, s, "acme", template)
		if only.Common < 0.99 || !only.More || len(only.Matches) != MaxMatches || !only.Matches[0].OnlyCommon {
			t.Errorf("%+v", only)
		}
		both := traced(t, s, "acme", template+" "+tails[5])
		if both.Matches[0].Request != "request-5" || both.Matches[0].Evidence != Exact || both.Common < 0.5 || both.Common > 0.9 {
			t.Errorf("%+v", both)
		}
		part := traced(t, s, "acme", template[:200]+" Hello, "+tails[6])
		if part.Matches[0].Request != "request-6" || part.Matches[0].OnlyCommon || part.Matches[0].Share < 0.6 {
			t.Errorf("%+v", part)
		}
		for _, m := range slices.Concat(both.Matches[1:], part.Matches[1:]) { // a gram where the template ends may be one of a few tails
			if m.Share > 0.5 {
				t.Errorf("%+v", m)
			}
		}
	})
}

// TestWhatGoes: entries go with their record, their person and their tenant, and what merges leave of the index does not name them.
func TestWhatGoes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(4, 4))
		texts := make([]string, 24)
		for i := range texts {
			texts[i] = words(r, 30)
			keep(t, s, mark(t, s, "acme", i, texts[i]))
		}
		must(t, Drop(db, []string{"record-0", "record-none"}))
		n, err := EraseSubject(db, "acme", "person-1")
		if n != 8 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		gone := func(i int) bool { return i == 0 || i%3 == 1 }
		check := func(when string) {
			t.Helper()
			for i, text := range texts {
				if got := traced(t, s, "acme", text); (len(got.Matches) == 0) != gone(i) {
					t.Errorf("%s, %d: %+v", when, i, got)
				}
			}
		}
		check("before a merge")
		must(t, s.Merge(t.Context()))
		check("after it")
		if p := postings(t, s); p[1] || p[2] || !p[3] {
			t.Errorf("entries named after the merge: %v", p)
		}
		_, err = EraseSubject(db, "acme", "person-2")
		must(t, err)
		gone = func(i int) bool { return i == 0 || i%3 != 0 }
		must(t, s.Sweep(t.Context()))
		check("after a sweep")
		for number := range postings(t, s) {
			if gone(int(number) - 1) {
				t.Errorf("the sweep has left entry %d", number)
			}
		}
		_, err = EraseSubject(db, "acme", "person-0")
		must(t, err)
		must(t, s.Sweep(t.Context()))
		for _, table := range []string{"registry_entries", "registry_segments", "registry_blocks"} {
			if n := count(t, db, table); n != 0 {
				t.Errorf("%d rows of %s of nothing", n, table)
			}
		}
		// A tenant that has left: nothing of its late answers is kept, and its key is a new one if it comes again.
		late := mark(t, s, "acme", 30, texts[0])
		must(t, db.Exec("DELETE FROM registry_tenants").Error)
		keep(t, s, late)
		if n := count(t, db, "registry_entries"); n != 0 {
			t.Errorf("%d entries of a tenant without a key", n)
		}
		must(t, s.refresh(t.Context()))
		if bytes.Equal(late.Data, mark(t, s, "acme", 30, texts[0]).Data) {
			t.Error("the key is the old one")
		}
	})
}

// postings are the numbers of entries that the index names.
func postings(t *testing.T, s *Service) map[int64]bool {
	t.Helper()
	var segs []segmentRow
	must(t, s.db.Where("state = ?", live).Find(&segs).Error)
	out := map[int64]bool{}
	for _, seg := range segs {
		var blocks []blockRow
		must(t, s.db.Where("segment = ?", seg.ID).Find(&blocks).Error)
		for _, b := range blocks {
			must(t, decodeBlock(b.Data, b.Bucket, seg.Bits, seg.First, nil, func(p posting) {
				for _, n := range p.numbers {
					out[n] = true
				}
			}))
		}
	}
	return out
}

func count(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	must(t, db.Table(table).Count(&n).Error)
	return n
}

// TestMergesBreakAnywhere: whichever statement of a merge fails, or whenever the process dies, every answer is found once, and the next merge
// leaves as many segments as if nothing had happened.
func TestMergesBreakAnywhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			var faulty dbtest.Faults
			s, sound := open(t, faulty.Over(db)), open(t, db)
			must(t, db.Exec("DELETE FROM registry_segments").Error)
			must(t, db.Exec("DELETE FROM registry_blocks").Error)
			must(t, db.Exec("DELETE FROM registry_entries").Error)
			r := rand.New(rand.NewPCG(5, uint64(how)))
			var texts []string
			more := func() {
				for range fanIn {
					texts = append(texts, words(r, 30))
					keep(t, sound, mark(t, sound, "acme", len(texts)-1, texts[len(texts)-1]))
				}
			}
			faulty.Each(t, how, func() error {
				if n := count(t, db, "registry_segments WHERE state = 'live' AND level = 0"); n == 0 {
					more()
				}
				err := s.Merge(t.Context())
				for i := len(texts) - fanIn; i < len(texts); i += fanIn - 1 {
					text := texts[i]
					if got := requests(traced(t, sound, "acme", text)); !slices.Equal(got, []string{fmt.Sprintf("request-%d", i)}) {
						t.Fatalf("%d of %d after %v: %v", i, len(texts), err, got)
					}
				}
				return err
			})
			must(t, s.Merge(t.Context()))
			for i, text := range texts {
				if got := requests(traced(t, sound, "acme", text)); !slices.Equal(got, []string{fmt.Sprintf("request-%d", i)}) {
					t.Fatalf("%d of %d: %v", i, len(texts), got)
				}
			}
			var states []string
			must(t, db.Model(&segmentRow{}).Distinct().Pluck("state", &states).Error)
			if !slices.Equal(states, []string{live}) {
				t.Errorf("left are %v", states)
			}
			if n := count(t, db, "registry_blocks WHERE segment NOT IN (SELECT id FROM registry_segments)"); n != 0 {
				t.Errorf("%d blocks of nothing", n)
			}
		}
	})
}

// TestOneMerges: who loses the lead in the middle changes nothing that is read.
func TestOneMerges(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	r := rand.New(rand.NewPCG(6, 6))
	for i := range fanIn {
		keep(t, s, mark(t, s, "acme", i, words(r, 30)))
	}
	s.cfg.Leads = func(context.Context) (bool, error) { return false, nil }
	must(t, s.Merge(t.Context()))
	if n := count(t, s.db, "registry_segments"); n != fanIn {
		t.Errorf("%d segments without the lead", n)
	}
	var all []segmentRow
	must(t, s.db.Order("first").Find(&all).Error)
	out := segmentRow{ID: 1, Tenant: "acme", State: building, Level: 1, First: 1, Last: fanIn}
	must(t, s.db.Create(&out).Error)
	must(t, s.db.Model(&segmentRow{}).Where("id = ?", all[0].ID).Update("state", dead).Error) // another one has merged it
	out.Prints = 1
	if err := s.replace(t.Context(), all, out); !errors.Is(err, errLostLead) {
		t.Errorf("replaced: %v", err)
	}
	if n := count(t, s.db, "registry_segments WHERE state = 'live'"); n != fanIn-1 {
		t.Errorf("%d live segments", n)
	}
}

// TestUnreadableData: what Answers has not made is refused, and nothing of it is stored.
func TestUnreadableData(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	good := mark(t, s, "acme", 1, words(rand.New(rand.NewPCG(7, 7)), 30))
	for n := range good.Data {
		if n == 1 { // the version alone is an answer without alternatives, of which nothing is kept
			empty := good
			empty.Data = good.Data[:1]
			keep(t, s, empty)
			if n := count(t, s.db, "registry_segments"); n != 0 {
				t.Errorf("%d segments of nothing", n)
			}
			continue
		}
		bad := good
		bad.Data = good.Data[:n]
		if err := s.db.Transaction(func(tx *gorm.DB) error { return s.Keep(tx, []Mark{good, bad}) }); err == nil {
			t.Fatalf("the first %d bytes were kept", n)
		}
	}
	if n := count(t, s.db, "registry_entries"); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// TestRun merges what comes, and ends with its context.
func TestRun(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	s.cfg.MergeEvery = time.Millisecond
	r := rand.New(rand.NewPCG(9, 9))
	for i := range fanIn {
		keep(t, s, mark(t, s, "acme", i, words(r, 30)))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	deadline, tick := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for count(t, s.db, "registry_segments") != 1 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("nothing was merged")
		}
	}
	stop()
	must(t, <-ended)
}

// TestOriginsAreNamed: whoever has an answer repeated very often, as a whole or in parts, does not hide where it comes from.
func TestOriginsAreNamed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(13, 13))
		text := words(r, 40)
		keep(t, s, mark(t, s, "acme", 0, "Yes. "+text+" "+words(r, 10)))
		keep(t, s, mark(t, s, "acme", 1, text))
		var more []Mark
		for i := range 100 {
			more = append(more, mark(t, s, "acme", 2+i, text))
		}
		for part := range slices.Chunk(more, 10) {
			keep(t, s, part...)
		}
		for _, when := range []string{"before a merge", "after it"} {
			got := requests(traced(t, s, "acme", text))
			if len(got) != MaxMatches || got[0] != "request-1" || !slices.Contains(got, "request-101") {
				t.Errorf("%s, all of it: %v", when, got)
			}
			if got := requests(traced(t, s, "acme", text[10:120])); len(got) != MaxMatches || got[0] != "request-0" {
				t.Errorf("%s, a part: %v", when, got)
			}
			must(t, s.Merge(t.Context()))
		}
	})
}

// TestUnnamedStay: the entries that a segment names of a wording are gone, and it still says that there are others.
func TestUnnamedStay(t *testing.T) {
	alive := &aliveSet{first: 1, bits: []uint64{0, 1 << 10, 0}, n: 1}
	p := posting{print: 5}
	for n := range int64(100) {
		p.add(1, []int64{n + 1})
	}
	if len(p.numbers) != common || p.numbers[oldest-1] != oldest || p.numbers[oldest] != 100-common+oldest+1 {
		t.Fatalf("named are %v", p.numbers)
	}
	if !alive.keep(&p) || len(p.numbers) != 1 || p.numbers[0] != 75 || p.total != 100-common+1 {
		t.Errorf("%+v", p)
	}
	if (&aliveSet{first: 1, bits: []uint64{0, 0}}).keep(&p) {
		t.Error("a segment without entries keeps a posting")
	}
}

// TestTheDeadDoNotCrowdOut: answers that are gone, however many had the text, do not stand before one that is there.
func TestTheDeadDoNotCrowdOut(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(14, 14))
		text := words(r, 20)
		var marks []Mark
		for i := range common - 1 { // with the one that stays as many as a posting names
			marks = append(marks, mark(t, s, "acme", i, text))
		}
		keep(t, s, marks...)
		keep(t, s, mark(t, s, "acme", 9999, text[:60]+words(r, 10)))
		must(t, db.Exec("DELETE FROM registry_entries WHERE record <> 'record-9999'").Error)
		if got := requests(traced(t, s, "acme", text)); !slices.Equal(got, []string{"request-9999"}) {
			t.Errorf("%v", got)
		}
	})
}

// TestShortAnswersAreNotKept: what anybody could guess leaves nothing, not even a digest.
func TestShortAnswersAreNotKept(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	key, err := s.Key(t.Context(), "acme")
	must(t, err)
	a := NewAnswers(key, "")
	a.Text(0, "Yes.")
	a.Text(1, strings.Repeat("ab ", 19)+"c")
	if data := a.Data(); data != nil {
		t.Errorf("%x", data)
	}
	a = NewAnswers(key, "")
	a.Text(0, "Yes.")
	a.Reasoning(0, words(rand.New(rand.NewPCG(15, 15)), 30))
	short := key.NewPrinter(1)
	_, _ = short.WriteString("Yes.")
	digest := short.Prints().Digest
	if data := a.Data(); len(data) == 0 || bytes.Contains(data, digest[:]) {
		t.Errorf("%x", data)
	}
}

// TestErasedFingerprintsGo: a sweep writes every segment anew of which an erasure took anything, however little, once, and no other; also one that a merge
// was making meanwhile.
func TestErasedFingerprintsGo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(17, 17))
		for i := range 3 { // the last one has nothing of anna
			var marks []Mark
			for j := range 10 {
				m := mark(t, s, "acme", 10*i+j, words(r, 30))
				if m.Subject = "others"; j == 4 && i < 2 {
					m.Subject = "anna"
				}
				marks = append(marks, m)
			}
			keep(t, s, marks...)
		}
		ids := func() (all []int64) {
			must(t, db.Model(&segmentRow{}).Where("state = ?", live).Order("first").Pluck("id", &all).Error)
			return all
		}
		before := ids()
		must(t, s.Sweep(t.Context()))
		if !slices.Equal(ids(), before) {
			t.Error("a sweep without an erasure has written segments anew")
		}
		n, err := EraseSubject(db, "acme", "anna")
		if n != 2 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if p := postings(t, s); !p[5] || !p[15] {
			t.Fatalf("%v", p)
		}
		must(t, s.Sweep(t.Context()))
		after := ids()
		if p := postings(t, s); p[5] || p[15] || len(p) != 28 || after[0] == before[0] || after[1] == before[1] || after[2] != before[2] {
			t.Errorf("%d entries are named in %v, which were %v", len(p), after, before)
		}
		must(t, s.Sweep(t.Context()))
		if !slices.Equal(ids(), after) {
			t.Error("the second sweep has written segments anew")
		}
		inputs, out := buildOf(t, s)
		if n, err := EraseSubject(db, "acme", "others"); n != 28 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		must(t, s.replace(t.Context(), inputs, out))
		var seg segmentRow
		must(t, db.Where("id = ? AND state = ?", out.ID, live).Take(&seg).Error)
		if seg.Erased != 1 {
			t.Error("an erasure during a merge is forgotten")
		}
	})
}

// TestVariants: a text is an answer as well in another of its forms, and in no other form.
func TestVariants(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	text := words(rand.New(rand.NewPCG(31, 31)), 30)
	keep(t, s, mark(t, s, "acme", 1, text+" made by a machine"), mark(t, s, "acme", 2, text), mark(t, s, "acme", 3, text+" and so on"))
	s.cfg.Variants = func(text string) []string { return []string{text + " made by a machine"} }
	got := traced(t, s, "acme", text)
	if len(got.Matches) != 3 || got.Matches[0].Evidence != Exact || got.Matches[1].Evidence != Exact || got.Matches[2].Evidence == Exact || got.Matches[2].Request != "request-3" {
		t.Errorf("%+v", got)
	}
}

// TestKeysOfOthers: a replica has the keys that others made before it needs them, and goes on with them while the database is away.
func TestKeysOfOthers(t *testing.T) {
	db := dbtest.SQLite(t)
	a, b := open(t, db), open(t, db)
	made, err := a.Key(t.Context(), "acme")
	must(t, err)
	must(t, b.refresh(t.Context()))
	must(t, db.Migrator().RenameTable("registry_tenants", "away"))
	if had, err := b.Key(t.Context(), "acme"); err != nil || !bytes.Equal(digestOf(had, "x"), digestOf(made, "x")) {
		t.Errorf("%v", err)
	}
	if _, err := b.Key(t.Context(), "globex"); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("a tenant without a key: %v", err)
	}
}

// TestEveryTenantHasItsTurn: what has waited longest is merged first, however much another tenant has.
func TestEveryTenantHasItsTurn(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	r := rand.New(rand.NewPCG(32, 32))
	for i := range fanIn {
		keep(t, s, mark(t, s, "globex", i, words(r, 30)))
	}
	for i := range 2 * fanIn {
		keep(t, s, mark(t, s, "acme", i, words(r, 30)))
	}
	for _, want := range []string{"globex", "acme", "acme"} {
		inputs, err := s.due(t.Context(), []string{""})
		if err != nil || len(inputs) != fanIn || inputs[0].Tenant != want {
			t.Fatalf("%v, %d of %+v, want %s", err, len(inputs), inputs, want)
		}
		must(t, s.leading(t.Context(), func(l *lead) error { return s.merge(l, inputs, 1) }))
	}
}

// TestTheReleaseBeforeLeftEntries: a sweep removes entries whose records are gone, in turns, with their fingerprints, and no others; and what fails is repeated.
func TestTheReleaseBeforeLeftEntries(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := open(t, db)
		r := rand.New(rand.NewPCG(3, 3))
		var texts []string
		for i := range 12 {
			texts = append(texts, words(r, 30))
			keep(t, s, mark(t, s, []string{"acme", "globex"}[i%2], i, texts[i]))
		}
		broken := errors.New("down")
		s.cfg.Gone = func(*gorm.DB, []Mark) ([]string, error) { return nil, broken }
		if err := s.Sweep(t.Context()); !errors.Is(err, broken) || count(t, db, "registry_entries") != 12 {
			t.Errorf("%v, %d entries", err, count(t, db, "registry_entries"))
		}
		var asked []Mark
		s.cfg.Gone = func(_ *gorm.DB, marks []Mark) ([]string, error) {
			asked = append(asked, marks...)
			return []string{"record-2", "record-3", "record-99"}, nil
		}
		must(t, s.leading(t.Context(), func(l *lead) error { return s.check(l, 5) }))
		if len(asked) != 12 || asked[0].Tenant != "acme" || asked[0].Record != "record-0" || asked[0].Subject != "person-0" || asked[0].Time != 1e15 {
			t.Errorf("asked of %+v", asked)
		}
		must(t, s.Sweep(t.Context()))
		for i, text := range texts {
			found := len(traced(t, s, []string{"acme", "globex"}[i%2], text).Matches)
			if gone := i == 2 || i == 3; gone == (found > 0) {
				t.Errorf("%d: %d matches", i, found)
			}
		}
		if named := postings(t, s); len(named) != 5 || named[2] { // of both tenants
			t.Errorf("entries %v have fingerprints", named)
		}
	})
}

// TestShortPassages: 40 letters of an answer within a long text are named, as weak evidence, but not beside an answer that has more of it.
func TestShortPassages(t *testing.T) {
	s := open(t, dbtest.SQLite(t))
	r := rand.New(rand.NewPCG(21, 21))
	few, much := words(r, 60), words(r, 60)
	keep(t, s, mark(t, s, "acme", 0, few), mark(t, s, "acme", 1, much))
	letters := strings.ReplaceAll(few, " ", "")
	page := words(r, 70) + " " + letters[30:70] + " " + words(r, 70)
	got := traced(t, s, "acme", page)
	if !slices.Equal(requests(got), []string{"request-0"}) || got.Matches[0].Evidence != Weak || got.Matches[0].Share >= LeastShare || got.Matches[0].Verified < fingerprint.Gram {
		t.Errorf("%+v", got)
	}
	if got := traced(t, s, "acme", page+" "+much[:200]); !slices.Equal(requests(got), []string{"request-1"}) {
		t.Errorf("%+v", got)
	}
}

// TestOverwritten: SQLite overwrites the blocks that merges and sweeps replace.
func TestOverwritten(t *testing.T) {
	var faulty dbtest.Faults
	s := open(t, faulty.Over(dbtest.SQLite(t)))
	r := rand.New(rand.NewPCG(22, 22))
	for i := range fanIn {
		keep(t, s, mark(t, s, "acme", i, words(r, 30)))
	}
	must(t, s.db.Exec("INSERT INTO registry_blocks (segment, bucket, tenant, data) VALUES (1, 0, 'acme', x'00')").Error)
	removed, last := 0, ""
	faulty.Set(func(op string) dbtest.Outcome {
		if strings.HasPrefix(op, "DELETE FROM `registry_blocks`") {
			removed++
			if last != "PRAGMA secure_delete = ON" {
				t.Errorf("%s comes before %s", last, op)
			}
		}
		last = op
		return dbtest.Healthy
	})
	must(t, s.Merge(t.Context()))
	must(t, s.Sweep(t.Context()))
	if removed < fanIn+1 {
		t.Errorf("%d removals", removed)
	}
}
