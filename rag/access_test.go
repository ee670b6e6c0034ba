package rag

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/parse"
)

// someone are readers and their rules, drawn from few values so that they meet.
type someone struct{ rng *rand.Rand }

func (s someone) of(most int, all ...string) (out []string) {
	for range s.rng.IntN(most + 1) {
		out = append(out, all[s.rng.IntN(len(all))])
	}
	return out
}

func (s someone) reader() Reader {
	return Reader{
		Labels: s.of(2, "a", "b", "c"), Principals: s.of(2, "user:1", "user:2", "key:1", "service:1"), Roles: s.of(2, "developer", "application", "auditor"),
		Purpose: []string{"", "", "care", "audit"}[s.rng.IntN(4)],
	}
}

func (s someone) allows() (out []Allow) {
	for range s.rng.IntN(3) {
		a := Allow{
			Labels: s.of(1, "a", "b", "c"), Principals: s.of(1, "user:1", "user:2", "key:1", "service:1"), Roles: s.of(1, "developer", "application", "auditor"), Purposes: s.of(1, "care", "audit"),
		}
		if a.count() > 0 {
			out = append(out, a)
		}
	}
	return out
}

// truth is a document as whoever wrote the rules means it; it knows nothing of how they are kept.
type truth struct {
	labels   []string
	rule     Rule // with headings
	versions []truthVersion
}

type truthVersion struct {
	name        string
	from, until int64
	headings    []string // of its passages
}

func oneOf(want, have []string) bool {
	for _, w := range want {
		for _, h := range have {
			if w == h {
				return true
			}
		}
	}
	return len(want) == 0
}

func anyAllow(all []Allow, r Reader) bool {
	for _, a := range all {
		if oneOf(a.Labels, r.Labels) && oneOf(a.Principals, r.Principals) && oneOf(a.Roles, r.Roles) && oneOf(a.Purposes, []string{r.Purpose}) {
			return true
		}
	}
	return false
}

// shows says, passage by passage, whether a reader may see the version of a document at a time.
func (d truth) shows(v truthVersion, chunk int, r Reader, at int64) bool {
	if at < v.from || v.until != 0 && at >= v.until || !oneOf(d.labels, r.Labels) || d.rule.Restricted && !anyAllow(d.rule.Allow, r) {
		return false
	}
	for _, p := range d.rule.Parts {
		mine := p.Section != "" && (v.headings[chunk] == p.Section || strings.HasPrefix(v.headings[chunk], p.Section+" > "))
		mine = mine || p.Version == v.name && slices.Contains(p.Chunks, chunk)
		if mine && !anyAllow(p.Allow, r) {
			return false
		}
	}
	return true
}

// TestRulesDoNotLeak holds random readers against random rules, labels, parts, versions and times, through search, passages and counts, with a naive
// judge beside: nothing is shown that may not be seen, nothing that may is left out, and what is not there is answered like what is not theirs.
func TestRulesDoNotLeak(t *testing.T) {
	alone(t)
	pairs := 5_000
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		pairs = 1_000_000
	}
	s := service(t, dbtest.SQLite(t), newHashed())
	rng := rand.New(rand.NewPCG(5, 25))
	some := someone{rng}
	clock := time.UnixMicro(1_000_000_000_000).UTC()
	s.now = func() time.Time { return clock }
	create(t, s, "acme", "kb")
	docs := map[string]*truth{}
	headings := []string{"Top", "Top > One", "Top > One > Deep", "Top > Two"}
	change := func(id string) { // the rule of a document is replaced
		d := docs[id]
		next := *d
		next.labels, next.rule = some.of(1, "a", "b", "c"), Rule{Restricted: rng.IntN(2) == 0}
		if next.rule.Restricted {
			next.rule.Allow = some.allows()
		}
		for range rng.IntN(3) {
			p := PartRule{Allow: some.allows()}
			if rng.IntN(3) == 0 {
				p.Version, p.Chunks = d.versions[0].name, []int{rng.IntN(len(d.versions[0].headings))}
			} else {
				p.Section = headings[rng.IntN(len(headings))]
			}
			next.rule.Parts = append(next.rule.Parts, p)
		}
		if _, err := s.SetAccess(t.Context(), "acme", "kb", id, Access{Labels: next.labels, Rule: next.rule}); err != nil {
			t.Fatal(err)
		}
		docs[id] = &next
	}
	const body = "# Top\n\nwords %[1]s\n\n## One\n\nwords of one %[1]s\n\n### Deep\n\nwords deep %[1]s\n\n## Two\n\nwords of two %[1]s"
	for i := range 24 {
		var d truth
		var id string
		for v := range 1 + rng.IntN(3) {
			in := ingest(t, s, "kb", fmt.Sprintf("d%d.md", i), fmt.Sprintf(body, fmt.Sprintf("%d-%d", i, v)))
			if in.Chunks != 4 {
				t.Fatalf("%+v", in)
			}
			id = in.ID
			clock = clock.Add(time.Second)
		}
		all, err := s.Versions(t.Context(), "acme", "kb", id)
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(4) == 0 { // repealed
			if all[0], err = s.SetValidity(t.Context(), "acme", "kb", id, all[0].Version, all[0].Revision, Validity{Until: clock.Add(time.Duration(rng.IntN(100)) * time.Second)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range slices.Backward(all) {
			until := int64(0)
			if !v.ValidUntil.IsZero() {
				until = v.ValidUntil.UnixMicro()
			}
			d.versions = append(d.versions, truthVersion{v.Version, v.ValidFrom.UnixMicro(), until, headings})
		}
		docs[id] = &d
		change(id)
	}
	ids := slices.Sorted(maps.Keys(docs))
	start := clock
	seen, hidden := 0, 0
	for n := range pairs {
		if n%200 == 0 {
			change(ids[rng.IntN(len(ids))])
		}
		if n%500 == 0 {
			clock = clock.Add(time.Second)
		}
		r, asOf, at := some.reader(), time.Time{}, clock.UnixMicro()
		if rng.IntN(3) == 0 {
			at = start.UnixMicro() - rng.Int64N(60_000_000)
			asOf = time.UnixMicro(at).UTC()
		}
		want := map[string]bool{}
		counted := 0
		for id, d := range docs {
			any := false
			for _, v := range d.versions {
				begun := v // lists have what has ended, too
				begun.until = 0
				for c := range v.headings {
					any = any || d.shows(begun, c, r, at)
					if d.shows(v, c, r, at) {
						want[fmt.Sprintf("%s@%s#%d", id, v.name, c)] = true
					}
				}
			}
			if any {
				counted++
			}
		}
		found, err := s.Search(t.Context(), Query{
			Tenant: "acme", Collection: "kb", Labels: r.Labels, Principals: r.Principals, Roles: r.Roles, Purpose: r.Purpose, AsOf: asOf, Text: "words", TopK: 50,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			if key := fmt.Sprintf("%s@%s#%d", p.DocumentID, p.Version, p.Chunk); !want[key] {
				t.Fatalf("LEAK: %+v at %d found %s with %+v", r, at, key, docs[p.DocumentID])
			}
		}
		if len(found) != min(50, len(want)) {
			t.Fatalf("%+v found %d of %d", r, len(found), len(want))
		}
		seen += len(found)
		if asOf.IsZero() {
			if got, err := s.Collections(t.Context(), "acme", &r); err != nil || len(got) != 1 || got[0].Documents != counted {
				t.Fatalf("%+v counts %+v of %d, %v", r, got, counted, err)
			}
		}
		id := ids[rng.IntN(len(ids))]
		d := docs[id]
		v := d.versions[rng.IntN(len(d.versions))]
		chunk := rng.IntN(6) - 1 // two of them do not exist
		ref := PassageRef{
			Tenant: "acme", Collection: "kb", Labels: r.Labels, Principals: r.Principals, Roles: r.Roles, Purpose: r.Purpose, AsOf: asOf, DocumentID: id, Version: v.name, Chunk: chunk, Context: 3,
		}
		got, err := s.Passages(t.Context(), ref)
		for _, p := range got {
			if key := fmt.Sprintf("%s@%s#%d", p.DocumentID, p.Version, p.Chunk); !want[key] {
				t.Fatalf("LEAK: %+v at %d opened %s with %+v", r, at, key, d)
			}
		}
		ok := want[fmt.Sprintf("%s@%s#%d", id, v.name, chunk)]
		if ok != (err == nil) {
			t.Fatalf("%+v at %d opens %s %s %d: %v", r, at, id, v.name, chunk, err)
		}
		if err == nil {
			continue
		}
		hidden++
		ever := false // he may see something of it that is or was in effect
		for _, v := range d.versions {
			for c := range v.headings {
				ever = ever || v.from <= clock.UnixMicro() && d.shows(truthVersion{v.name, 0, 0, v.headings}, c, r, 1)
			}
		}
		if !ever { // like one that is not there
			ref.DocumentID = "00000000-0000-0000-0000-000000000000"
			_, other := s.Passages(t.Context(), ref)
			if strings.ReplaceAll(err.Error(), id, ref.DocumentID) != other.Error() || !fault.Is(err, fault.CodeNotFound) {
				t.Fatalf("not yours: %v; absent: %v", err, other)
			}
		} else if at >= v.from && (v.until == 0 || at < v.until) { // like a passage that is not there
			ref.Chunk = 99
			_, other := s.Passages(t.Context(), ref)
			if strings.ReplaceAll(err.Error(), fmt.Sprintf("'%d'", chunk), "'99'") != other.Error() {
				t.Fatalf("not yours: %v; absent: %v", err, other)
			}
		}
	}
	t.Logf("%d pairs: %d passages shown, %d not opened", pairs, seen, hidden)
	if seen < pairs || hidden < pairs/4 {
		t.Errorf("only %d passages shown, %d not opened", seen, hidden)
	}
}

// TestWritersCannotOpenDocuments: whoever may only write documents keeps labels and rule of one that is there, also by a version that has lost what the rule
// restricts; a new document is his own.
func TestWritersCannotOpenDocuments(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		put := func(change func(*Document)) (IngestResult, error) {
			d := Document{Tenant: "acme", Collection: "kb", Name: "a.md", By: Reader{Principals: []string{"user:writer"}}, Body: []byte("# Open\n\nopen words\n\n# Board\n\nboard words")}
			change(&d)
			draft, err := s.Read(t.Context(), d)
			if err != nil {
				return IngestResult{}, err
			}
			return s.Store(t.Context(), draft, s.from.Embed)
		}
		board := Rule{Restricted: true, Allow: []Allow{{Roles: []string{"board"}}}, Parts: []PartRule{{Section: "Board", Allow: []Allow{{Principals: []string{"user:1"}}}}}}
		in, err := put(func(d *Document) { d.Labels, d.Rule = []string{"staff"}, &board })
		if err != nil {
			t.Fatal(err)
		}
		another := func(d *Document) { d.Body = append(d.Body, " again"...) }
		for name, c := range map[string]func(*Document){
			"other labels": func(d *Document) { another(d); d.Labels = []string{"staff", "all"} },
			"no labels":    func(d *Document) { another(d); d.Labels = []string{} },
			"no rule":      func(d *Document) { another(d); d.Rule = &Rule{} },
			"another rule": func(d *Document) {
				another(d)
				d.Rule = &Rule{Restricted: true, Allow: []Allow{{Roles: []string{"board", "developer"}}}, Parts: board.Parts}
			},
			"the same text, other labels": func(d *Document) { d.Labels = []string{} },
		} {
			if _, err := put(c); !fault.Is(err, fault.CodeNotAllowed) || !strings.Contains(err.Error(), "rag.access") {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err = put(func(d *Document) { d.Body = []byte("# Open\n\nopen words\n\n# Bord\n\nboard words") })
		wantCode(t, err, fault.CodeConflict)
		if in2, err := put(func(d *Document) { another(d); d.Labels = []string{"staff"} }); err != nil || in2.Version != "v2" || in2.ID != in.ID {
			t.Errorf("%+v, %v", in2, err)
		}
		for n, s := range []*library{s, service(t, db, newHashed())} {
			count := func(r Reader) int {
				got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5, Labels: r.Labels, Roles: r.Roles, Principals: r.Principals})
				if err != nil {
					t.Fatal(err)
				}
				return len(got)
			}
			for want, r := range map[int]Reader{
				0: {Labels: []string{"staff"}, Roles: []string{"developer"}, Principals: []string{"user:1"}},
				1: {Labels: []string{"staff"}, Roles: []string{"board"}},
				2: {Labels: []string{"staff"}, Roles: []string{"board"}, Principals: []string{"user:1"}},
			} {
				if got := count(r); got != want {
					t.Errorf("replica %d: %+v sees %d of %d", n, r, got, want)
				}
			}
		}
		if _, err := put(func(d *Document) { another(d); d.Rule, d.MayChangeAccess, d.Labels = &Rule{}, true, []string{} }); err != nil {
			t.Errorf("who may change access: %v", err)
		}
		wantTexts(t, find(t, s, "kb", "open words"), "Open\n\nopen words", "Board\n\nboard words again")
	})
}

// TestDamagedRulesLetNobodyIn: a rule that was changed in the tables, or moved from another document, lets nobody in; the others are found as before.
func TestDamagedRulesLetNobodyIn(t *testing.T) {
	db := dbtest.SQLite(t)
	s := service(t, db, newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", "private words")
	ingest(t, s, "kb", "b.txt", "public words")
	set := func(id string, r Rule) {
		t.Helper()
		if _, err := s.SetAccess(t.Context(), "acme", "kb", id, Access{Rule: r}); err != nil {
			t.Fatal(err)
		}
	}
	other := ingest(t, s, "kb", "c.txt", "words for all developers")
	set(other.ID, Rule{Restricted: true, Allow: []Allow{{Roles: []string{"developer"}}}})
	for name, sql := range map[string]string{
		"edited": "UPDATE rag_documents SET rule = replace(rule, 'board', 'developer') WHERE name = 'a.txt'",
		"moved":  "UPDATE rag_documents SET rule = (SELECT rule FROM rag_documents WHERE name = 'c.txt') WHERE name = 'a.txt'",
		"cut":    "UPDATE rag_documents SET rule = substr(rule, 1, 40) WHERE name = 'a.txt'",
		"labels": "UPDATE rag_documents SET labels = '[]' WHERE name = 'a.txt'",
		"noise":  "UPDATE rag_documents SET rule = 'x' WHERE name = 'a.txt'",
	} {
		if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Labels: []string{"staff"}, Rule: Rule{Restricted: true, Allow: []Allow{{Roles: []string{"board"}}}}}); err != nil {
			t.Fatal(err)
		}
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
		again := service(t, db, newHashed())
		got, err := again.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 5, Roles: []string{"board", "developer"}})
		if err != nil || len(got) != 2 || slices.ContainsFunc(got, func(p Passage) bool { return p.DocumentID == in.ID }) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		why, err := again.Explain(t.Context(), "acme", "kb", in.ID, Reader{Roles: []string{"board"}}, time.Time{})
		if err != nil || !slices.Contains(why.Reasons, HiddenByDamage) {
			t.Errorf("%s: %+v, %v", name, why, err)
		}
		if _, err := again.SetAccess(t.Context(), "acme", "kb", in.ID, Access{}); err != nil { // the remedy
			t.Errorf("%s: %v", name, err)
		}
		wantTexts(t, find(t, again, "kb", "private words"), "private words", "public words")
		follow(t, s)
	}
}

// TestRevocationReachesReplicas: a right that is taken away ends on this replica with the next search, and on another within a poll, while that one is
// still reading a large document.
func TestRevocationReachesReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := service(t, db, newHashed()), service(t, db, newHashed())
		create(t, a, "acme", "kb")
		in := ingest(t, a, "kb", "a.txt", "private words")
		follow(t, b)
		wantTexts(t, find(t, b, "kb", "words"), "private words")
		ingest(t, a, "kb", "large.txt", "large words")
		held, let := make(chan struct{}), make(chan struct{})
		hold := &holding{held: held, let: let}
		ci, err := b.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		hold.passageStore = ci.passages
		ci.passages = hold
		done := make(chan error, 1)
		go func() { done <- b.follow(context.Background()) }()
		<-held // b indexes the large document, and goes on doing so until let is closed
		if _, err := a.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}}); err != nil {
			t.Fatal(err)
		}
		if got := find(t, a, "kb", "private words"); slices.ContainsFunc(got, func(p Passage) bool { return p.DocumentID == in.ID }) {
			t.Errorf("still found here: %+v", got)
		}
		if _, _, err := b.followAccess(t.Context(), 0, false); err != nil { // what watchAccess does each poll
			t.Fatal(err)
		}
		if got := find(t, b, "kb", "private words"); len(got) != 0 {
			t.Errorf("still found on the other replica: %+v", got)
		}
		if err := a.DeleteDocument(t.Context(), "acme", "kb", "large.txt"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.followAccess(t.Context(), 0, false); err != nil {
			t.Fatal(err)
		}
		close(let)
		<-done
		if got := find(t, b, "kb", "large words"); len(got) != 0 {
			t.Errorf("a document that was deleted while it was indexed is found: %+v", got)
		}
	})
}

// TestWhatIsLightDoesNotWait: while a replica indexes a large document, it follows at once what ends, what is replaced and what is deleted elsewhere, and
// carries out what it is asked itself: nobody who revokes waits for documents that come in.
func TestWhatIsLightDoesNotWait(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := service(t, db, newHashed()), service(t, db, newHashed())
		create(t, a, "acme", "kb")
		ids := map[string]string{}
		for _, name := range []string{"ended", "replaced", "shrunk", "ruled", "dated here", "shrunk here"} {
			if strings.HasPrefix(name, "shrunk") {
				ingest(t, a, "kb", name+".txt", "first words")
			}
			ids[name] = ingest(t, a, "kb", name+".txt", "words "+name).ID
		}
		follow(t, b)
		all := find(t, b, "kb", "words")
		if len(all) != len(ids) {
			t.Fatalf("%+v", all)
		}
		at := time.Now()
		ingest(t, a, "kb", "large.txt", "large words")
		held, let := make(chan struct{}), make(chan struct{})
		ci, err := b.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		ci.passages = &holding{passageStore: ci.passages, held: held, let: let}
		done := make(chan error, 1)
		go func() { done <- b.follow(context.Background()) }()
		<-held
		until := func(s *library, name, version string) {
			t.Helper()
			got, err := s.SetValidity(t.Context(), "acme", "kb", ids[name], version, 0, Validity{Until: time.Now()})
			if err != nil || got.InEffect || got.ValidUntil.IsZero() || got.Digest == "" {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		until(a, "ended", "v1")
		ingest(t, a, "kb", "replaced.txt", "other words")
		if err := a.DeleteVersion(t.Context(), "acme", "kb", ids["shrunk"], "v2"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.followAccess(t.Context(), 0, false); err != nil { // what watchAccess does each poll
			t.Fatal(err)
		}
		until(b, "dated here", "v1")
		if err := b.DeleteVersion(t.Context(), "acme", "kb", ids["shrunk here"], "v2"); err != nil {
			t.Fatal(err)
		}
		is, err := b.DocumentAccess(t.Context(), "acme", "kb", ids["ruled"])
		if err != nil {
			t.Fatal(err)
		}
		is.Rule = Rule{Restricted: true}
		if _, err := b.SetAccess(t.Context(), "acme", "kb", ids["ruled"], is); err != nil {
			t.Fatal(err)
		}
		if got := find(t, b, "kb", "words"); len(got) != 0 {
			t.Errorf("still found: %+v", got)
		}
		got, err := b.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 9, AsOf: at})
		if err != nil || len(got) != 3 {
			t.Errorf("with a time before: %+v, %v", got, err)
		}
		close(let)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		follow(t, b)
		texts := func(s *library) (out []string) {
			for _, p := range find(t, s, "kb", "words") {
				out = append(out, p.Document+p.Version+p.Text)
			}
			slices.Sort(out)
			return out
		}
		if got, want := texts(b), texts(service(t, db, newHashed())); len(want) != 2 || !slices.Equal(got, want) {
			t.Errorf("afterwards it finds %q, another replica %q", got, want)
		}
	})
}

// TestAccessIsWatched: the loop that serves does it by itself.
func TestAccessIsWatched(t *testing.T) {
	db := dbtest.Postgres(t)
	a, b := service(t, db, newHashed()), service(t, db, newHashed())
	b.cfg.Poll = 200 * time.Millisecond
	create(t, a, "acme", "kb")
	in := ingest(t, a, "kb", "a.txt", "private words")
	follow(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.watchAccess(ctx) }()
	if _, err := a.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Restricted: true}}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); len(find(t, b, "kb", "private words")) != 0; {
		if time.Now().After(deadline) {
			t.Fatal("not revoked though the access is watched")
		}
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	<-ended
}

// TestAccessChanges: two editors do not overwrite each other, parts that no version has are refused, and records get digests that tell nothing.
func TestAccessChanges(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.md", "# Wang Fang\n\nwords\n\n# Fees\n\nmore words")
	before, err := s.DocumentAccess(t.Context(), "acme", "kb", in.ID)
	if err != nil {
		t.Fatal(err)
	}
	rule := Rule{Parts: []PartRule{{Section: "Wang Fang", Allow: []Allow{{Roles: []string{"board"}}}}}}
	changed, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: rule, Revision: before.Revision})
	if err != nil || changed.Before == changed.After || len(changed.After) != 32 {
		t.Fatalf("%+v, %v", changed, err)
	}
	_, err = s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Revision: before.Revision})
	wantCode(t, err, fault.CodeConflict)
	now, err := s.DocumentAccess(t.Context(), "acme", "kb", in.ID)
	if err != nil || strings.Contains(fmt.Sprintf("%+v", now), "Wang") || !strings.HasPrefix(now.Rule.Parts[0].Section, sectionPrefix) {
		t.Errorf("a heading is told: %+v, %v", now, err)
	}
	var stored string
	if err := s.store.db.Raw("SELECT rule FROM rag_documents").Row().Scan(&stored); err != nil || strings.Contains(stored, "Wang") {
		t.Errorf("the tables tell a heading: %s, %v", stored, err)
	}
	again, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: now.Rule, Revision: now.Revision}) // with ids
	if err != nil || again.Before != again.After {
		t.Errorf("%+v, %v", again, err)
	}
	for name, r := range map[string]Rule{
		"unknown section":   {Parts: []PartRule{{Section: "PERSON_1"}}},
		"unknown id":        {Parts: []PartRule{{Section: sectionPrefix + "0000"}}},
		"unknown version":   {Parts: []PartRule{{Version: "v2", Chunks: []int{0}}}},
		"unknown passage":   {Parts: []PartRule{{Version: "v1", Chunks: []int{2}}}},
		"before the first":  {Parts: []PartRule{{Version: "v1", Chunks: []int{-1}}}},
		"nothing":           {Parts: []PartRule{{}}},
		"both":              {Parts: []PartRule{{Section: "Fees", Version: "v1", Chunks: []int{0}}}},
		"everybody":         {Restricted: true, Allow: []Allow{{}}},
		"not restricted":    {Allow: []Allow{{Roles: []string{"board"}}}},
		"nobody's name":     {Restricted: true, Allow: []Allow{{Principals: []string{"Wang"}}}},
		"an empty value":    {Restricted: true, Allow: []Allow{{Roles: []string{""}}}},
		"a control letter":  {Restricted: true, Allow: []Allow{{Roles: []string{"a\n"}}}},
		"too many":          {Restricted: true, Allow: make([]Allow, maxAllows+1)},
		"too many passages": {Parts: []PartRule{{Version: "v1", Chunks: make([]int, maxPassages+1)}}},
	} {
		_, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: r})
		if !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = s.SetAccess(t.Context(), "acme", "kb", "none", Access{})
	wantCode(t, err, fault.CodeNotFound)
	_, err = s.SetAccess(t.Context(), "globex", "kb", in.ID, Access{})
	wantCode(t, err, fault.CodeCollectionNotFound)
}

// TestNeighboursShareTheRule: passages overlap, so what shares text with a restricted one is restricted like it.
func TestNeighboursShareTheRule(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	s.cfg.ChunkSize, s.cfg.ChunkOverlap = 64, 32
	create(t, s, "acme", "kb")
	in := ingest(t, s, "kb", "a.txt", strings.Repeat("Some words here. ", 8)+"The canary sings. "+strings.Repeat("Other words here. ", 8))
	with := 0
	for _, p := range find(t, s, "kb", "canary") {
		if strings.Contains(p.Text, "canary") {
			with++
			if _, err := s.SetAccess(t.Context(), "acme", "kb", in.ID, Access{Rule: Rule{Parts: []PartRule{{Version: "v1", Chunks: []int{p.Chunk}}}}}); err != nil {
				t.Fatal(err)
			}
			for _, q := range find(t, s, "kb", "canary words") {
				if q.Start < p.End && p.Start < q.End {
					t.Errorf("%q shares text with the restricted %q", q.Text, p.Text)
				}
			}
		}
	}
	if with < 2 {
		t.Errorf("%d passages have it", with)
	}
}

// TestRuleStorage holds encode and decode to each other.
func TestRuleStorage(t *testing.T) {
	k := ruleKeeper{keyring.FromBytes(make([]byte, 32))}
	some := someone{rand.New(rand.NewPCG(1, 2))}
	for range 300 {
		r, err := cleanRule(Rule{Restricted: true, Allow: some.allows(), Parts: []PartRule{{Section: "x", Allow: some.allows()}}})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := k.encode("d", "[]", r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := k.decode("d", "[]", stored)
		if again, _ := k.encode("d", "[]", back); err != nil || again != stored {
			t.Fatalf("%+v became %+v, %v", r, back, err)
		}
		if _, err := k.decode("e", "[]", stored); err == nil {
			t.Fatal("the rule of another document was read")
		}
	}
}

// TestNewVersionsKeepTheOldOnesRestricted: a rule that comes with a version, by whoever may change access, opens nothing of the versions before, which are
// read with a time; also if another replica has stored them a moment ago.
func TestNewVersionsKeepTheOldOnesRestricted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := service(t, db, newHashed()), service(t, db, newHashed())
		clock := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		now := func() time.Time { return clock }
		a.now, b.now = now, now
		create(t, a, "acme", "kb")
		put := func(s *library, body string, r *Rule, may bool) (IngestResult, error) {
			clock = clock.Add(time.Hour)
			draft, err := s.Read(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "a.md", Body: []byte(body), Rule: r, MayChangeAccess: may})
			if err != nil {
				return IngestResult{}, err
			}
			return s.Store(t.Context(), draft, s.from.Embed)
		}
		board := []Allow{{Roles: []string{"board"}}}
		in, err := put(a, "# Open\n\nopen words\n\n# Salaries\n\nsalary words\n\n# Plans\n\nplan words", &Rule{Parts: []PartRule{{Section: "Salaries", Allow: board}, {Version: "v1", Chunks: []int{2}, Allow: board}}}, true)
		if err != nil {
			t.Fatal(err)
		}
		before := clock
		_, err = put(b, "# Open\n\nopen words of two\n\n# Fees\n\nfee words", nil, false)
		wantCode(t, err, fault.CodeConflict) // it has lost both parts
		if _, err := put(b, "# Open\n\nopen words of two\n\n# Fees\n\nfee words", &Rule{Parts: []PartRule{{Section: "Fees", Allow: board}}}, true); err != nil {
			t.Fatal(err)
		}
		follow(t, a)
		for n, s := range []*library{a, b, service(t, db, newHashed())} {
			s.now = now
			for want, r := range map[int]Reader{1: {}, 3: {Roles: []string{"board"}}} {
				got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 9, Roles: r.Roles, AsOf: before})
				if err != nil || len(got) != want {
					t.Errorf("replica %d: %+v reads %d of version 1: %+v, %v", n, r, want, got, err)
				}
			}
			if got := find(t, s, "kb", "words"); len(got) != 1 || got[0].Version != "v2" {
				t.Errorf("replica %d: %+v", n, got)
			}
			for chunk := range 2 {
				_, err := s.Passages(t.Context(), PassageRef{Tenant: "acme", Collection: "kb", DocumentID: in.ID, Version: "v1", Chunk: chunk + 1, AsOf: before})
				wantCode(t, err, fault.CodeNotFound)
			}
		}
		// Who may only write goes on from what was decided, and cannot lose what the last version has.
		if in, err := put(a, "# Open\n\nopen words of three\n\n# Fees\n\nfee words", nil, false); err != nil || in.Version != "v3" {
			t.Fatalf("%+v, %v", in, err)
		}
		_, err = put(a, "# Open\n\nopen words of three\n\n# Fee\n\nfee words", nil, false)
		wantCode(t, err, fault.CodeConflict)
		// A part of an earlier version may be named with a new one, and be given to others.
		all := []Allow{{Roles: []string{"developer"}}}
		if _, err := put(a, "# Open\n\nopen words of four", &Rule{Parts: []PartRule{{Section: "Salaries", Allow: all}, {Version: "v1", Chunks: []int{2}, Allow: all}}}, true); err != nil {
			t.Fatal(err)
		}
		got, err := a.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "words", TopK: 9, Roles: []string{"developer"}, AsOf: before})
		if err != nil || len(got) != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		// What GET says can be given back, also of versions that are gone.
		if err := a.DeleteVersion(t.Context(), "acme", "kb", in.ID, "v1"); err != nil {
			t.Fatal(err)
		}
		is, err := a.DocumentAccess(t.Context(), "acme", "kb", in.ID)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := a.SetAccess(t.Context(), "acme", "kb", in.ID, is); err != nil || same.Before != same.After {
			t.Errorf("%+v, %v", same, err)
		}
	})
}

// TestHiddenCostsNoMoreThanAbsent: who asks for a document that is hidden from him, of many passages, versions and parts or of few, has as much worked out as
// for one that is not there.
func TestHiddenCostsNoMoreThanAbsent(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	small := ingest(t, s, "kb", "small.txt", "small words").ID
	var large string
	for n := range 3 {
		large = ingest(t, s, "kb", "large.md", strings.Repeat("# One\n\nwords\n\n## Two\n\nmore words\n\n", 20+n)).ID
	}
	board := []Allow{{Roles: []string{"board"}}}
	for id, r := range map[string]Rule{
		small: {Restricted: true, Allow: board},
		large: {Restricted: true, Allow: board, Parts: []PartRule{{Section: "One", Allow: board}, {Version: "v2", Chunks: []int{0, 3}, Allow: []Allow{{Principals: []string{"user:1"}}}}}},
	} {
		if _, err := s.SetAccess(t.Context(), "acme", "kb", id, Access{Rule: r}); err != nil {
			t.Fatal(err)
		}
	}
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	view := ci.passages.View()
	sets, err := ci.groups(view)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, id := range []string{"absent", small, large} {
		shown, lookups := ci.reveals(view.Find(id), view.In(sets.permitted(viewer{roles: []string{"developer"}})), ci.time())
		if shown || lookups == 0 || want != 0 && lookups != want {
			t.Errorf("%s: %v after %d look-ups, %d for others", id, shown, lookups, want)
		}
		want = lookups
		if shown, _ := ci.reveals(view.Find(id), view.In(sets.permitted(viewer{roles: []string{"board"}})), ci.time()); shown != (id != "absent") {
			t.Errorf("%s: %v", id, shown)
		}
	}
}

// TestPublishedNowIsInEffectNow: a text that is dated ahead and is published now comes into effect now; one that comes again with the rule that it has stays
// as it is.
func TestPublishedNowIsInEffectNow(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	d := Document{Tenant: "acme", Collection: "kb", Name: "a.md", Body: []byte("# Fees\n\nnew words"), ValidFrom: time.Now().Add(time.Hour), Rule: &Rule{Parts: []PartRule{{Section: "Fees", Allow: []Allow{{Roles: []string{"board"}}}}}}}
	put := func(version string, changed bool) {
		t.Helper()
		in, err := s.Ingest(t.Context(), d)
		if err != nil || in.Version != version || (in.Access.Before != in.Access.After) != changed {
			t.Errorf("%+v, %v, want %s", in, err, version)
		}
	}
	put("v1", true)
	d.ValidFrom = time.Time{}
	put("v2", false)
	put("v2", false) // with the rule that it has
	d.Rule = &Rule{}
	put("v3", true)
	wantTexts(t, find(t, s, "kb", "words"), "Fees\n\nnew words")
}

// TestSectionsThatMove: who may only write brings no version in which text of a restricted section may stand elsewhere, because the same file is read
// otherwise, or because its headings are guessed. The same file with the same sections comes in, and so does what names its headings itself.
func TestSectionsThatMove(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	keep := s.store.rules
	read := func(kind, digest string, parts ...string) *indexedVersion { // section, text, section, text…
		v := &indexedVersion{versionRow: versionRow{MIME: kind, Digest: digest}}
		for i := 0; i < len(parts); i += 2 {
			start := len(v.Content)
			v.Content += parts[i+1]
			v.chunks = append(v.chunks, chunkRow{Chunk: i / 2, Section: parts[i], Start: start, End: len(v.Content)})
			v.Content += "\n\n"
		}
		return v
	}
	rule := Rule{Parts: []PartRule{{Section: keep.section("d", "Fees")}}}
	for name, c := range map[string]struct {
		earlier []*indexedVersion
		of      *indexedVersion
		moved   bool
	}{
		"the same file, a heading found in the section": {[]*indexedVersion{read(parse.PDF, "a", "Fees", "one two")}, read(parse.PDF, "a", "Fees", "one", "Staff", "two"), true},
		"the same page, read otherwise":                 {[]*indexedVersion{read(parse.HTML, "a", "Fees", "one two")}, read(parse.HTML, "a", "Fees", "one", "Staff", "two"), true},
		"the same, divided otherwise":                   {[]*indexedVersion{read(parse.PDF, "a", "Fees", "one two")}, read(parse.PDF, "a", "Fees", "one", "Fees", "two"), false},
		"the same, more below it":                       {[]*indexedVersion{read(parse.PDF, "a", "Fees", "one two")}, read(parse.PDF, "a", "Fees", "one", "Fees > Staff", "two"), false},
		"the same, with something else outside":         {[]*indexedVersion{read(parse.PDF, "a", "Fees", "one", "Open", "x y")}, read(parse.PDF, "a", "Fees", "one", "Open", "x"), false},
		"another PDF":                                   {[]*indexedVersion{read(parse.PDF, "a", "Fees", "one")}, read(parse.PDF, "b", "Fees", "one"), true},
		"another message":                               {[]*indexedVersion{read(parse.Mail, "a", "Fees", "one")}, read(parse.Mail, "b", "Fees", "one"), true},
		"another Word file":                             {[]*indexedVersion{read(parse.DOCX, "a", "Fees", "one")}, read(parse.DOCX, "b", "Fees", "two"), false},
		"a PDF of what was a Word file":                 {[]*indexedVersion{read(parse.DOCX, "a", "Fees", "one")}, read(parse.PDF, "b", "Fees", "one"), true},
		"a Word file of what was a PDF":                 {[]*indexedVersion{read(parse.PDF, "a", "Fees", "one")}, read(parse.DOCX, "b", "Fees", "one"), true},
		"a file of before the last, read otherwise":     {[]*indexedVersion{read(parse.DOCX, "a", "Fees", "one two"), read(parse.DOCX, "b", "Fees", "x")}, read(parse.DOCX, "a", "Fees", "one", "Staff", "two"), true},
		"a PDF whose section somebody has given up":     {[]*indexedVersion{read(parse.PDF, "a", "Open", "one")}, read(parse.PDF, "b", "Open", "one"), false},
	} {
		if got := keep.moved("d", rule, c.earlier, c.earlier[len(c.earlier)-1], c.of); got != c.moved {
			t.Errorf("%s: moved %v", name, got)
		}
	}
	if !keep.moved("d", rule, nil, nil, read(parse.DOCX, "a", "Fees", "one")) {
		t.Error("the version before cannot be read, and the section may have been larger")
	}

	create(t, s, "acme", "kb")
	put := func(more string, change func(*Document)) (IngestResult, error) {
		d := Document{Tenant: "acme", Collection: "kb", Name: "a.eml", Body: []byte("From: a@b\r\nSubject: s\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n" +
			"--x\r\n\r\nopen words\r\n--x\r\nContent-Type: text/plain; name=Fees.txt\r\n\r\nhidden words" + more + "\r\n--x--\r\n")}
		change(&d)
		return s.Ingest(t.Context(), d)
	}
	fees := Rule{Parts: []PartRule{{Section: "Fees.txt", Allow: []Allow{{Roles: []string{"board"}}}}}}
	if _, err := put("", func(d *Document) { d.Rule = &fees }); err != nil {
		t.Fatal(err)
	}
	if _, err := put(" again", func(*Document) {}); !fault.Is(err, fault.CodeConflict) || !strings.Contains(err.Error(), "how they look") {
		t.Errorf("another message: %v", err)
	}
	if in, err := put("", func(d *Document) { d.ValidUntil = time.Now().Add(time.Hour) }); err != nil || in.Version != "v2" {
		t.Errorf("the same message with another end: %+v, %v", in, err)
	}
	if in, err := put(" again", func(d *Document) { d.Rule, d.MayChangeAccess = &fees, true }); err != nil || in.Version != "v3" {
		t.Errorf("who may change access: %+v, %v", in, err)
	}
	for _, p := range find(t, s, "kb", "words") {
		if strings.Contains(p.Text, "hidden") {
			t.Errorf("everybody sees %+v", p)
		}
	}
}
