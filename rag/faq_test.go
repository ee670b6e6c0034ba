package rag

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag/faq"
)

// putFAQ stores an entry, and returns the id of its document.
func putFAQ(t *testing.T, s *library, id string, e faq.Entry, labels ...string) string {
	t.Helper()
	d, err := s.FAQDocument(t.Context(), "acme", "kb", id, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if labels != nil {
		d.Labels = labels
	}
	in, err := s.Ingest(t.Context(), *d)
	if err != nil {
		t.Fatal(err)
	}
	return in.ID
}

// asks returns the entry that a question asks from a probability of 0.8 on; "" for none.
func asks(t *testing.T, s *library, question string, labels ...string) string {
	t.Helper()
	trace := Trace{}
	if _, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: question, TopK: 1, Trace: &trace, FAQ: true, Labels: labels}); err != nil {
		t.Fatal(err)
	}
	if hit := trace.FAQ; hit != nil && hit.FAQ.Score >= 0.8 && !hit.FAQ.Vetoed {
		return hit.FAQ.Answer
	}
	return ""
}

// TestFAQ: a question asks an entry by its question, its similar ones and the names of the glossary; a negative question vetoes, and stands in no passage. An entry is a
// passage like others. Who may not see it, and whoever asks before or behind its time, asks none.
func TestFAQ(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "kb")
	ingest(t, s, "kb", "a.txt", "居住证在社区服务中心办理。")
	id := putFAQ(t, s, "", faq.Entry{Question: "公交卡在哪里充值？", Similar: []string{"去哪给公交卡充钱", "去哪给公交卡充钱？"}, Negative: []string{"公交卡在哪里退款"}, Answer: "在任一地铁站。"})
	putFAQ(t, s, "", faq.Entry{Question: "退货运费谁出？", Answer: "由我们承担。"}, "staff")
	putTerm(t, s, "kb", "公交卡", "乘车卡")
	for question, want := range map[string]string{
		"公交卡在哪里充值": "在任一地铁站。", "請問公交卡去哪裡充值": "在任一地铁站。", "去哪给公交卡充钱啊": "在任一地铁站。", "乘车卡在哪里充值": "在任一地铁站。",
		"公交卡在哪里退款": "", "公交卡在哪里退款呢": "", "居住证在哪里办理": "", "退货运费谁出": "",
	} {
		if got := asks(t, s, question); got != want {
			t.Errorf("%s: %q, want %q", question, got, want)
		}
	}
	if got := asks(t, s, "退货运费谁出", "staff"); got != "由我们承担。" {
		t.Errorf("who may see it: %q", got)
	}
	found := find(t, s, "kb", "地铁站 退款")
	if len(found) == 0 || found[0].DocumentID != id || found[0].Title != "公交卡在哪里充值？" || strings.Contains(found[0].Text, "退款") || !strings.Contains(found[0].Text, "去哪给公交卡充钱\n\n在任一地铁站。") {
		t.Errorf("as a passage: %+v", found)
	}
	// Who brought an entry that he may not read is not told what it says.
	d, err := s.FAQDocument(t.Context(), "acme", "kb", "", faq.Entry{Question: "Who is paid what?", Answer: "Much."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := Reader{Principals: []string{"user:u"}, Writes: true}
	d.Labels, d.By = []string{"staff"}, u
	if _, err := s.Ingest(t.Context(), *d); err != nil {
		t.Fatal(err)
	}
	for labels, want := range map[string]int{"": 1, "staff": 3} {
		u.Labels = []string{labels}
		if list, err := s.FAQ(t.Context(), "acme", "kb", &u); err != nil || len(list) != want {
			t.Errorf("with the label %q: %+v, %v", labels, list, err)
		}
	}
	// Nobody who does not ask for it is told an entry, and nothing is compared for him.
	for _, scores := range []bool{false, true} {
		trace := Trace{}
		found, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: "公交卡在哪里充值", TopK: 1, Trace: &trace, FAQScores: scores})
		if err != nil || trace.FAQ != nil || len(found) != 1 || (found[0].FAQ != nil) != scores {
			t.Errorf("scores %v: %+v, %+v, %v", scores, trace.FAQ, found, err)
		}
	}
	// Another number is another entry, and may be a negative question.
	one := putFAQ(t, s, "", faq.Entry{Question: "fee under 1.5 tonnes?", Negative: []string{"fee under 15 tonnes?"}, Answer: "Ten."})
	if two := putFAQ(t, s, "", faq.Entry{Question: "fee under 15 tonnes?", Answer: "Hundred."}); two == one {
		t.Error("it has replaced the entry of another number")
	}
	if a, b := asks(t, s, "Fee under 1.5 tonnes"), asks(t, s, "Fee under 15 tonnes"); a != "Ten." || b != "Hundred." {
		t.Errorf("1.5: %q, 15: %q", a, b)
	}
	// Of entries with equal text, of which searches show one, each vetoes.
	for i, negative := range [][]string{nil, {"how do I top up the card abroad"}, nil} {
		d, err := s.FAQDocument(t.Context(), "acme", "kb", "", faq.Entry{Question: "how do I top up the card", Negative: negative, Answer: "In the app."}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Name = fmt.Sprint("copy-", i)
		if _, err := s.Ingest(t.Context(), *d); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := asks(t, s, "How do I top up the card"), asks(t, s, "How do I top up the card abroad"); a != "In the app." || b != "" {
		t.Errorf("of equal entries: %q, %q", a, b)
	}
	// The export of a tenant has what an entry is made of.
	exported := 0
	err = Originals(t.Context(), s.store.db, keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), "acme", func(o Original) error {
		if e, err := decodeFAQ(o.Text); o.ID == id && err == nil && e.Negative[0] == "公交卡在哪里退款" {
			exported++
		}
		return nil
	})
	if err != nil || exported != 1 {
		t.Errorf("%d are exported, %v", exported, err)
	}
	// Dates hold as for documents.
	if _, err := s.SetValidity(t.Context(), "acme", "kb", id, "v1", revisionOf(t, s, id), Validity{Until: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got := asks(t, s, "公交卡在哪里充值"); got != "" {
		t.Errorf("behind its end: %q", got)
	}
}

func revisionOf(t *testing.T, s *library, id string) int64 {
	t.Helper()
	d, err := s.Document(t.Context(), "acme", "kb", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Revision
}

// TestFAQHoldsOnReplicas: what one replica stores, changes, restricts or deletes holds in the next question to another, which has not followed by itself. While it cannot
// follow, no entry is told. Nothing of an entry stands in clear in the tables or on the disk.
func TestFAQHoldsOnReplicas(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		dir := t.TempDir()
		a, b := serviceIn(t, dir, db, newHashed()), service(t, db, newHashed())
		create(t, a, "acme", "kb")
		follow(t, b)
		e := faq.Entry{Question: "Where is the zebra desk?", Negative: []string{"Where was the zebra quagga?"}, Answer: "On the okapi floor."}
		id := putFAQ(t, a, "", e)
		const q = "where is the zebra desk"
		if got := asks(t, b, q); got != e.Answer {
			t.Fatalf("a new entry: %q", got)
		}
		e.Answer = "On the second floor."
		if again := putFAQ(t, b, "", e); again != id {
			t.Errorf("the same question is another entry: %s, %s", id, again)
		}
		if got := asks(t, a, q); got != e.Answer {
			t.Errorf("a changed entry: %q", got)
		}
		// With its id an entry gets another question; who then brings the old one anew brings another entry.
		e.Question = "Where is the gnu desk?"
		putFAQ(t, a, id, e)
		e.Question = "WHERE is the zebra desk"
		if other := putFAQ(t, b, "", faq.Entry{Question: e.Question, Answer: "Nowhere."}); other == id {
			t.Error("it has replaced an entry with another question")
		}
		if got, was := asks(t, a, q), asks(t, b, "where is the gnu desk"); got != "Nowhere." || was != e.Answer {
			t.Errorf("%q, %q", got, was)
		}
		list, err := b.FAQ(t.Context(), "acme", "kb", nil)
		if err != nil || len(list) != 2 || list[0].Title != "WHERE is the zebra desk" || list[1].ID != id {
			t.Fatalf("the list is %+v, %v", list, err)
		}
		if got, err := b.FAQEntry(t.Context(), list[1]); err != nil || got.Question != "Where is the gnu desk?" || got.Negative[0] != e.Negative[0] || got.Damaged {
			t.Errorf("the entry is %+v, %v", got, err)
		}
		// An entry keeps its name when it gets another question: it is found by the one that it has, also where another replica has changed it.
		if again := putFAQ(t, b, "", faq.Entry{Question: "WHERE is the gnu desk", Negative: e.Negative, Answer: e.Answer}); again != id {
			t.Errorf("the question of a changed entry is another entry: %s, %s", id, again)
		}
		for range 2 { // the name that it would have is taken
			putFAQ(t, a, "", faq.Entry{Question: "where is the zebra desk?", Answer: "Nowhere."})
		}
		if list, err := b.FAQ(t.Context(), "acme", "kb", nil); err != nil || len(list) != 2 {
			t.Errorf("the list is %+v, %v", list, err)
		}
		if _, err := b.FAQDocument(t.Context(), "acme", "kb", id, faq.Entry{Question: "where is the ZEBRA desk", Answer: "x"}, nil); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("with the question of another entry: %v", err)
		}
		if _, err := a.SetAccess(t.Context(), "acme", "kb", id, Access{Labels: []string{"staff"}, Revision: revisionOf(t, a, id)}); err != nil {
			t.Fatal(err)
		}
		if got := asks(t, b, "where is the gnu desk"); got != "" {
			t.Errorf("restricted: %q", got)
		}
		if got := asks(t, b, "where is the gnu desk", "staff"); got != e.Answer {
			t.Errorf("restricted, to whom it may tell: %q", got)
		}
		wantSealed(t, db, dir, "zebra", "quagga", "gnu", "okapi")
		if err := a.DeleteDocumentID(t.Context(), "acme", "kb", id); err != nil {
			t.Fatal(err)
		}
		if got := asks(t, b, "where is the gnu desk", "staff"); got != "" {
			t.Errorf("deleted: %q", got)
		}
		for _, table := range []string{"rag_documents", "rag_versions", "rag_chunks"} {
			column := map[string]string{"rag_documents": "id"}[table]
			if column == "" {
				column = "document"
			}
			var n int64
			if err := db.Table(table).Where(column+" = ?", id).Count(&n).Error; err != nil || n != 0 {
				t.Errorf("%d rows of a deleted entry in %s, %v", n, table, err)
			}
		}
		// What cannot be followed tells none.
		putFAQ(t, a, "", faq.Entry{Question: "Is there tea?", Answer: "Yes."})
		ci, err := b.collection("acme", "kb")
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Exec("DELETE FROM rag_journal").Error; err != nil {
			t.Fatal(err)
		}
		if err := b.catchUp(t.Context(), ci); err == nil {
			t.Error("it follows a journal that is gone")
		}
		trace := Trace{}
		if _, err := b.Search(t.Context(), Query{Tenant: "acme", Collection: "kb", Text: q, TopK: 1, Trace: &trace, FAQ: true}); trace.FAQ != nil {
			t.Errorf("it tells %+v, %v", trace.FAQ, err)
		}
	})
}

// TestQuestionsDoNotWaitLong: whoever tells the store something else for long, or what comes in beside, keeps no question from its search within the time of its caller.
// Those who wait have one goroutine follow, and an entry that comes in is read before them, and nothing else.
func TestQuestionsDoNotWaitLong(t *testing.T) {
	db := dbtest.SQLite(t)
	a, b := serviceIn(t, t.TempDir(), db, newHashed()), service(t, db, newHashed())
	create(t, a, "acme", "kb")
	putFAQ(t, a, "", faq.Entry{Question: "Is there tea?", Answer: "Yes."})
	follow(t, b)
	ci, err := b.collection("acme", "kb")
	if err != nil {
		t.Fatal(err)
	}
	// A document that another replica has taken in stays to be read; an entry is.
	ingest(t, a, "kb", "a.txt", "Coffee is out.")
	putFAQ(t, a, "", faq.Entry{Question: "Is there cocoa?", Answer: "No."})
	if got := asks(t, b, "is there cocoa"); got != "No." || ci.lacks() != 1 {
		t.Errorf("%q, it lacks %d documents", got, ci.lacks())
	}
	search := func() (found []Passage, trace Trace, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*catchUpTime)
		defer cancel()
		found, err = b.Search(ctx, Query{Tenant: "acme", Collection: "kb", Text: "is there tea", TopK: 1, Trace: &trace, FAQ: true})
		return found, trace, err
	}
	putFAQ(t, a, "", faq.Entry{Question: "Is there water?", Answer: "Yes."}) // something to follow
	ci.change.Lock()
	defer func() { // whoever follows is let go on, and takes one more turn
		is := &ci.caughtUp
		is.mu.Lock()
		if is.next == nil {
			is.next = &turn{done: make(chan struct{})}
		}
		last, runs := is.next, is.runs
		is.mu.Unlock()
		ci.change.Unlock()
		if !runs {
			t.Fatal("nobody follows")
		}
		select {
		case <-last.done:
		case <-time.After(time.Minute):
			t.Fatal("whoever follows does not end")
		}
		if last.err != nil {
			t.Error(last.err)
		}
	}()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if found, trace, err := search(); err != nil || len(found) != 1 || trace.FAQ != nil {
				t.Errorf("%+v, %+v, %v", found, trace.FAQ, err)
			}
		})
	}
	all.Wait()
}

// TestTurns: who waits is told of a turn that began after he came; all who wait share it. Behind a turn that takes too long nobody waits.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var is turns
		begun, end := make(chan int), make(chan error)
		n := 0
		do := func() error {
			n++
			begun <- n
			return <-end
		}
		got := make(chan error)
		wait := func() { got <- is.wait(t.Context(), time.Second, do) }
		go wait()
		<-begun
		for range 3 { // while it runs: they wait for the next one
			go wait()
		}
		synctest.Wait()
		end <- nil
		if err := <-got; err != nil || <-begun != 2 {
			t.Fatal(err, n)
		}
		end <- io.EOF
		for range 3 {
			if err := <-got; !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		const long = catchUpTime + time.Second
		go func() { got <- is.wait(t.Context(), long, do) }()
		<-begun
		start := time.Now()
		if err := <-got; !errors.Is(err, errBehind) || time.Since(start) != long {
			t.Fatal(err, time.Since(start))
		}
		start = time.Now()
		go wait()
		if err := <-got; !errors.Is(err, errBehind) || time.Since(start) != 0 || n != 3 {
			t.Fatal(err, time.Since(start), n)
		}
		end <- nil
	})
}

// wantSealed reports words that stand in clear in the tables of documents or below a directory.
func wantSealed(t *testing.T, db *gorm.DB, dir string, words ...string) {
	t.Helper()
	var stored [][]byte
	for _, table := range []string{"rag_documents", "rag_versions", "rag_chunks", "rag_collections", "rag_journal"} {
		var rows []map[string]any
		if err := db.Table(table).Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			for _, v := range r {
				switch v := v.(type) {
				case string:
					stored = append(stored, []byte(v))
				case []byte:
					stored = append(stored, v)
				}
			}
		}
	}
	files := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		stored = append(stored, raw, []byte(path))
		return err
	})
	if err != nil || files == 0 || len(stored) < 10 {
		t.Fatal(len(stored), files, err)
	}
	for _, raw := range stored {
		for _, w := range words {
			if bytes.Contains(bytes.ToLower(raw), []byte(w)) {
				t.Errorf("%q stands in clear", w)
			}
		}
	}
}

// TestFAQEntriesAreChecked: what cannot be meant is refused and stores nothing; what nobody sees is left out.
func TestFAQEntriesAreChecked(t *testing.T) {
	t.Parallel()
	ok := faq.Entry{Question: "a?", Answer: "b"}
	for name, change := range map[string]func(*faq.Entry){
		"no question": func(e *faq.Entry) { e.Question = " ？ " }, "two lines": func(e *faq.Entry) { e.Question = "a\nb" }, "long question": func(e *faq.Entry) { e.Question = strings.Repeat("字", MaxFAQQuestion+1) },
		"no answer": func(e *faq.Entry) { e.Answer = "\n" }, "long answer": func(e *faq.Entry) { e.Answer = strings.Repeat("字", MaxFAQAnswer+1) }, "control": func(e *faq.Entry) { e.Answer = "a\x00b" },
		"empty similar": func(e *faq.Entry) { e.Similar = []string{""} }, "both": func(e *faq.Entry) { e.Negative = []string{"Ａ!"} }, "similar and negative": func(e *faq.Entry) { e.Similar, e.Negative = []string{"c"}, []string{"c."} },
		"many": func(e *faq.Entry) { e.Negative = make([]string, MaxFAQSimilar+1) }, "not UTF-8": func(e *faq.Entry) { e.Answer = "a\xff" },
		"large": func(e *faq.Entry) {
			for i := range MaxFAQSimilar {
				e.Similar = append(e.Similar, strings.Repeat("字", 400)+string(rune('一'+i)))
			}
		},
	} {
		e := ok
		change(&e)
		if _, err := cleanFAQ(e); !fault.Is(err, fault.CodeInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := cleanFAQ(faq.Entry{Question: " a\u200b? ", Similar: []string{"c", "C.", "A"}, Answer: " x\u202ey\r\nz "})
	if err != nil || got.Question != "a?" || len(got.Similar) != 1 || got.Answer != "xy\nz" {
		t.Errorf("%+v, %v", got, err)
	}
}
