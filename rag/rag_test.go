package rag

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestIngestSearchDelete(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		in := ingest(t, s, "kb", "户籍.md", "# 户籍\n\n## 迁移\n\n户口迁移需要身份证和户口本。\n\n## 注销\n\n注销户口需要死亡证明。\n")
		if in.Version != "v1" || in.Chunks != 2 || in.ID == "" || in.MIME != "text/markdown" {
			t.Errorf("ingested %+v", in)
		}
		ingest(t, s, "kb", "pay.txt", "Parking fees are paid at the machine.")

		got := find(t, s, "kb", "怎么迁移户口")
		if len(got) == 0 {
			t.Fatal("nothing found")
		}
		want := Passage{
			Collection: "kb", Document: "户籍.md", DocumentID: in.ID, Version: "v1", Title: "户籍", Section: "户籍 > 迁移",
			Text: "户籍\n\n迁移\n\n户口迁移需要身份证和户口本。", Start: 0, End: len("户籍\n\n迁移\n\n户口迁移需要身份证和户口本。"), Score: got[0].Score, Revision: got[1].Revision, Evidence: got[1].Evidence,
		}
		if !reflect.DeepEqual(got[0], want) || got[0].Score <= got[1].Score || got[0].Score > 1 || !(got[0].Evidence > 0.5) {
			t.Errorf("got  %+v\nwant %+v", got[0], want)
		}
		if en := find(t, s, "kb", "where do I pay for a parking place"); en[0].Document != "pay.txt" {
			t.Errorf("got %+v", en[0])
		}

		again := ingest(t, s, "kb", "户籍.md", "# 户籍\n\n户口迁移改为网上办理。\n")
		if again.ID != in.ID || again.Version != "v2" {
			t.Errorf("second version %+v of %+v", again, in)
		}
		if now := find(t, s, "kb", "怎么迁移户口")[0].Revision; now <= got[0].Revision {
			t.Errorf("revision %d after %d", now, got[0].Revision)
		}
		for _, p := range find(t, s, "kb", "户口 身份证 死亡证明") {
			if p.Document == "户籍.md" && p.Version != "v2" {
				t.Errorf("the old version is found: %+v", p)
			}
		}
		docs, err := s.Documents(t.Context(), "acme", "kb", nil)
		if err != nil || len(docs) != 2 || docs[1].Version != "v2" || docs[1].Title != "户籍" || docs[1].Chunks != 1 {
			t.Errorf("documents %+v, %v", docs, err)
		}
		if err := s.DeleteDocument(t.Context(), "acme", "kb", "户籍.md"); err != nil {
			t.Fatal(err)
		}
		wantTexts(t, find(t, s, "kb", "户口迁移 parking"), "Parking fees are paid at the machine.")
		wantCode(t, s.DeleteDocument(t.Context(), "acme", "kb", "户籍.md"), fault.CodeNotFound)
		var rows int64
		if err := db.Raw("SELECT COUNT(*) FROM rag_chunks").Row().Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d chunks are stored, %v", rows, err)
		}
		if err := s.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
			t.Fatal(err)
		}
		_, err = s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "x", TopK: 5})
		wantCode(t, err, fault.CodeCollectionNotFound)
		if err := db.Raw("SELECT (SELECT COUNT(*) FROM rag_chunks) + (SELECT COUNT(*) FROM rag_documents)").Row().Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows are left, %v", rows, err)
		}
	})
}

// TestUnchangedDocumentsStay ingests the same again: nothing is embedded and no version made, unless something differs, here or in
// what another replica stored meanwhile.
func TestUnchangedDocumentsStay(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		e := newHashed()
		s, other := service(t, db, e), service(t, db, newHashed())
		create(t, s, "acme", "kb")
		follow(t, other)
		first := ingest(t, s, "kb", "a.md", "# one\n\ntext", "x", "y")
		first.Access = AccessChange{} // the same again changes none
		e.failAt(1)                   // embedding would fail
		if again := ingest(t, s, "kb", "a.md", "# one\n\ntext", "y", "x"); !reflect.DeepEqual(again, first) {
			t.Errorf("the same again is %+v, was %+v", again, first)
		}
		e.failAt(0)
		for i, c := range []struct {
			body   string
			labels []string
		}{{"# one\n\ntext.", []string{"x", "y"}}, {"# one\n\ntext.", []string{}}, {"# two\n\ntext.", nil}} {
			if in := ingest(t, s, "kb", "a.md", c.body, c.labels...); in.Version != versionName(int64(i+2)) {
				t.Errorf("change %d gave %+v", i, in)
			}
		}
		ingest(t, other, "kb", "a.md", "# three")
		if in := ingest(t, s, "kb", "a.md", "# two\n\ntext."); in.Version != "v6" {
			t.Errorf("going back gave %+v", in)
		}
		s = service(t, db, &hashed{dim: 64, model: "hashed-64"})
		if in := ingest(t, s, "kb", "a.md", "# two\n\ntext."); in.Version != "v7" {
			t.Errorf("another model gave %+v", in)
		}
		s.cfg.ChunkSize, s.cfg.ChunkOverlap = 32, 0
		ingest(t, s, "kb", "b.txt", strings.Repeat("many words ", 10))
		s.cfg.ChunkSize = 64
		if in := ingest(t, s, "kb", "b.txt", strings.Repeat("many words ", 10)); in.Version != "v2" {
			t.Errorf("other chunks gave %+v", in)
		}
	})
}

func TestRestartFindsTheSame(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb", "staff")
		create(t, s, "other", "kb")
		rng := rand.New(rand.NewPCG(1, 3))
		for i := range 30 {
			ingest(t, s, "kb", fmt.Sprintf("d%d.md", i%25), randomText(rng))
		}
		if err := s.DeleteDocument(t.Context(), "acme", "kb", "d3.md"); err != nil {
			t.Fatal(err)
		}
		queries := []string{"迁移户口", "tax office", "q7", "医保 报销", randomText(rng)}
		restarted := service(t, db, newHashed())
		for _, q := range queries {
			before, after := find(t, s, "kb", q, "staff"), find(t, restarted, "kb", q, "staff")
			if len(before) == 0 || !reflect.DeepEqual(before, after) {
				t.Errorf("%q: %d passages before, %d after, or they differ", q, len(before), len(after))
			}
		}
		a, err1 := s.Documents(t.Context(), "acme", "kb", nil)
		b, err2 := restarted.Documents(t.Context(), "acme", "kb", nil)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(a, b) || len(a) != 24 {
			t.Errorf("%d documents, %v, differ from %d, %v", len(a), err1, len(b), err2)
		}
		cols, err := restarted.Collections(t.Context(), "acme", &Reader{Labels: []string{"staff"}})
		if err != nil || len(cols) != 1 || cols[0].Documents != 24 || cols[0].Title != "T kb" {
			t.Errorf("collections %+v, %v", cols, err)
		}
	})
}

// randomText returns paragraphs and headings in two languages.
func randomText(rng *rand.Rand) string {
	words := strings.Fields("户口 迁移 医保 报销 办理 材料 税务 窗口 tax office card 身份证 q7 permit A-12 renew 养老 保险 school")
	var b strings.Builder
	for range 1 + rng.IntN(5) {
		if rng.IntN(3) == 0 {
			fmt.Fprintf(&b, "## %s\n\n", words[rng.IntN(len(words))])
		}
		for range 1 + rng.IntN(200) {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteString([]string{" ", "", "。", ". "}[rng.IntN(4)])
		}
		b.WriteString("x\n\n")
	}
	return b.String()
}

// TestOffsetsPointAtTheText holds that a citation can be checked against the stored text.
func TestOffsetsPointAtTheText(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	rng := rand.New(rand.NewPCG(2, 3))
	for i := range 40 {
		ingest(t, s, "kb", fmt.Sprintf("d%d.md", i), randomText(rng))
	}
	contents := map[string]string{}
	ci, err := s.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := s.store.documents(t.Context(), ci.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		v, err := s.store.content(t.Context(), d.versions[len(d.versions)-1].ID)
		if err != nil {
			t.Fatal(err)
		}
		contents[d.ID] = v.Content
	}
	seen := 0
	for range 60 {
		for _, p := range find(t, s, "kb", strings.ToValidUTF8(randomText(rng)[:20], "")+"a") {
			seen++
			if got := contents[p.DocumentID][p.Start:p.End]; got != p.Text || p.Score < 0 || p.Score > 1 {
				t.Fatalf("%+v points at %q", p, got)
			}
		}
	}
	if seen < 500 {
		t.Errorf("only %d passages seen", seen)
	}
}

func TestUnknownAndForbiddenLookTheSame(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "secret", "board")
	create(t, s, "globex", "open")
	ingest(t, s, "secret", "a.txt", "merger plans")
	for name, q := range map[string]Query{
		"no such collection":   {Tenant: "acme", Collection: "secret2", Text: "merger"},
		"without the label":    {Tenant: "acme", Collection: "secret", Text: "merger", Labels: []string{"staff"}},
		"without any label":    {Tenant: "acme", Collection: "secret", Text: "merger"},
		"of another tenant":    {Tenant: "acme", Collection: "open", Text: "merger"},
		"without a tenant":     {Collection: "secret", Text: "merger", Labels: []string{"board"}},
		"bad query, forbidden": {Tenant: "acme", Collection: "secret", Text: "", TopK: -1},
	} {
		_, err := s.Search(t.Context(), q)
		wantCode(t, err, fault.CodeCollectionNotFound)
		want := fmt.Sprintf("The collection '%s' does not exist or you do not have access to it.", q.Collection)
		if got := fault.Public(err).Message(fault.English); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if cols, err := s.Collections(t.Context(), "acme", &Reader{}); err != nil || len(cols) != 0 {
		t.Errorf("lists %+v, %v", cols, err)
	}
	if cols, err := s.Collections(t.Context(), "acme", nil); err != nil || len(cols) != 1 {
		t.Errorf("lists %+v, %v", cols, err)
	}
	if cols, err := s.Collections(t.Context(), "", nil); err != nil || len(cols) != 0 {
		t.Errorf("lists %+v, %v", cols, err)
	}
	wantTexts(t, find(t, s, "secret", "merger", "staff", "board"), "merger plans")
}

func TestRefusals(t *testing.T) {
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	wantCode(t, s.CreateCollection(t.Context(), Collection{Tenant: "acme", Name: "kb"}), fault.CodeExists)
	for _, c := range []Collection{
		{Name: "x"},
		{Tenant: "a"},
		{Tenant: "a", Name: "a/b"},
		{Tenant: "a", Name: "a b"},
		{Tenant: "a", Name: strings.Repeat("x", 65)},
		{Tenant: "a", Name: "x", Title: "a\nb"},
		{Tenant: "a", Name: "x", Labels: []string{""}},
		{Tenant: "a", Name: "x", Labels: []string{"a b"}},
	} {
		if err := s.CreateCollection(t.Context(), c); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ok := Document{Tenant: "acme", Collection: "kb", Name: "a.txt", Body: []byte("text")}
	for name, c := range map[string]struct {
		change func(*Document)
		code   fault.Code
	}{
		"collection": {func(d *Document) { d.Collection = "none" }, fault.CodeCollectionNotFound},
		"tenant":     {func(d *Document) { d.Tenant = "" }, fault.CodeCollectionNotFound},
		"name":       {func(d *Document) { d.Name = " " }, fault.CodeInvalidValue},
		"name mark":  {func(d *Document) { d.Name = "a#b.txt" }, fault.CodeInvalidValue},
		"label":      {func(d *Document) { d.Labels = []string{"\n"} }, fault.CodeInvalidValue},
		"kind":       {func(d *Document) { d.MIME = "application/pdf" }, fault.CodeInvalidDocument},
		"ending":     {func(d *Document) { d.Name = "a.docx" }, fault.CodeInvalidDocument},
		"empty":      {func(d *Document) { d.Body = nil }, fault.CodeInvalidDocument},
		"utf-8":      {func(d *Document) { d.Body = []byte{0xff} }, fault.CodeInvalidDocument},
		"size":       {func(d *Document) { d.Body = make([]byte, 8<<20+1) }, fault.CodeInvalidDocument},
		"passages": {func(d *Document) {
			d.MIME, d.Body = "text/markdown", []byte(strings.Repeat("# a\n\nb\n\n", maxChunks+1))
		}, fault.CodeInvalidDocument},
	} {
		d := ok
		c.change(&d)
		_, err := s.Ingest(t.Context(), d)
		if !fault.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, q := range []Query{{TopK: 51, Text: "x"}, {TopK: -1, Text: "x"}, {Text: "x"}, {TopK: 5, Text: " "}, {TopK: 5, Text: "\xff"}, {TopK: 5, Text: strings.Repeat("x", maxQuery+1)}} {
		q.Tenant, q.Collection = "acme", "kb"
		if _, err := s.Search(t.Context(), q); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if got := find(t, s, "kb", "anything"); len(got) != 0 {
		t.Errorf("an empty collection found %+v", got)
	}
	for _, cfg := range []Config{{MaxBytes: -1}, {ChunkSize: 5}, {ChunkOverlap: 9}, {MaxTopK: -1}, {MaxTopK: 1001}, {Poll: -1}} {
		if cfg.Validate() == nil {
			t.Errorf("%+v is valid", cfg)
		}
	}
	if _, err := New(Config{}, nil, nil, Model{}, nil, nil); err == nil {
		t.Error("a service without a model was made")
	}
}

func TestReplicasFollowEachOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := service(t, db, newHashed()), service(t, db, newHashed())
		create(t, a, "acme", "kb")
		ingest(t, b, "kb", "b.txt", "from b") // b learns of the collection when it needs it
		ingest(t, a, "kb", "a.txt", "from a") // a has not seen b's document yet
		follow(t, a)
		follow(t, b)
		wantTexts(t, find(t, a, "kb", "from b"), "from b", "from a")
		wantTexts(t, find(t, b, "kb", "from a"), "from a", "from b")
		ingest(t, a, "kb", "b.txt", "from b, second")
		if err := a.DeleteDocument(t.Context(), "acme", "kb", "a.txt"); err != nil {
			t.Fatal(err)
		}
		follow(t, b)
		wantTexts(t, find(t, b, "kb", "from"), "from b, second")
		if err := b.DeleteCollection(t.Context(), "acme", "kb"); err != nil {
			t.Fatal(err)
		}
		create(t, b, "acme", "kb", "new")
		_, err := a.Ingest(t.Context(), Document{Tenant: "acme", Collection: "kb", Name: "late.txt", Body: []byte("x")})
		wantCode(t, err, fault.CodeConflict) // into the collection that a still knows
		follow(t, a)
		if got := find(t, a, "kb", "from", "new"); len(got) != 0 {
			t.Errorf("the new collection has %+v", got)
		}
	})
}

func TestRunFollows(t *testing.T) {
	db := dbtest.SQLite(t)
	a, b := service(t, db, newHashed()), service(t, db, newHashed())
	b.cfg.Poll = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	create(t, a, "acme", "kb")
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := b.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "x", TopK: 5}); err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("the collection was never seen")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDraft: what a document will cost is known before it is stored, and one that is there already costs nothing.
func TestDraft(t *testing.T) {
	e := newHashed()
	s := service(t, dbtest.SQLite(t), e)
	create(t, s, "acme", "kb")
	d := Document{Tenant: "acme", Collection: "kb", Name: "a.md", Body: []byte("# Fees\n\nA passport costs 120.\n\n# Hours\n\nMonday.")}
	draft, err := s.Read(t.Context(), d)
	if err != nil || len(draft.Texts) != 2 || !strings.Contains(draft.Texts[0], "120") || !strings.HasPrefix(draft.Texts[0], "Fees") {
		t.Fatalf("%+v, %v", draft, err)
	}
	if got := find(t, s, "kb", "passport"); len(got) != 0 {
		t.Errorf("a draft was found: %+v", got)
	}
	var given []string
	first, err := s.Store(t.Context(), draft, func(ctx context.Context, texts []string, question bool) ([][]float32, error) {
		given = append(given, texts...)
		return e.Embed(ctx, texts, question)
	})
	if err != nil || !slices.Equal(given, draft.Texts) {
		t.Fatalf("%q were embedded, %v", given, err)
	}
	again, err := s.Read(t.Context(), d)
	if err != nil || len(again.Texts) != 0 {
		t.Fatalf("%+v, %v", again, err)
	}
	if second, err := s.Store(t.Context(), again, nil); err != nil || !reflect.DeepEqual(second, first) {
		t.Errorf("%+v, then %+v, %v", first, second, err)
	}
}
