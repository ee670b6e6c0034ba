package batch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// messages are the batches of messages of the caller.
func messages() Scope {
	return Scope{Owner: files.OwnerOf(caller()), Endpoints: []string{MessagesEndpoint}}
}

// makeFrom makes a batch of n requests that come with the wish for it.
func (w *world) makeFrom(s *Service, n int) Batch {
	w.t.Helper()
	in, err := s.NewInput(w.t.Context(), files.OwnerOf(caller()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer in.Abort(w.t.Context())
	for i := range n {
		if p, err := in.Add(fmt.Sprintf("c%d", i+1), fmt.Appendf(nil, "{\n\"n\": %d}", i+1)); p != nil || err != nil {
			w.t.Fatal(p, err)
		}
	}
	b, err := s.CreateFrom(w.t.Context(), caller(), NewBatch{ID: "msg" + NewID(), Source: "192.0.2.1", Language: "en", OutputLife: Window}, in)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// untilOf waits until a batch of messages has ended.
func (w *world) untilOf(s *Service, id string) (b Batch) {
	w.t.Helper()
	return w.untilIn(s, messages(), id, "the end", func(b Batch) bool { return !b.EndedAt.IsZero() })
}

// roomy has room for everything.
func roomy(int64) (func(), error) { return func() {}, nil }

func (w *world) outcomes(s *Service, id string) (order []string, all map[string]Outcome) {
	w.t.Helper()
	all = map[string]Outcome{}
	var held, most int64
	err := s.Outcomes(w.t.Context(), messages(), id, func(n int64) (func(), error) {
		held += n
		most = max(most, n)
		return func() { held -= n }, nil
	}, func(o Outcome) error {
		if int64(len(o.Answer)) >= held {
			w.t.Errorf("%d bytes of an answer, of a line of %d", len(o.Answer), held)
		}
		order, all[o.CustomID] = append(order, o.CustomID), o
		return nil
	})
	if held != 0 || most == 0 {
		w.t.Errorf("%d bytes of %d are held for ever", held, most)
	}
	if err != nil || len(all) != len(order) {
		w.t.Errorf("%d outcomes of %d requests: %v", len(order), len(all), err)
	}
	return order, all
}

// TestInput: a batch of requests that come with the wish for it is in progress at once, is asked line by line by the same runner, and is shown to nobody who
// looks for batches of files.
func TestInput(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		w.answer = func(q Request, times int) Response {
			switch {
			case q.Endpoint != MessagesEndpoint:
				t.Errorf("asked %s", q.Endpoint)
			case strings.HasSuffix(q.ID, ".2"):
				return Response{400, http.Header{}, []byte(`{"type":"error"}`)}
			case strings.HasSuffix(q.ID, ".3") && times < 3:
				return Response{statusOverloaded, http.Header{"Retry-After-Ms": {"1"}}, []byte(`{}`)}
			}
			return ok(string(q.Body))
		}
		s := w.replica("a", Limits{})
		made := w.makeFrom(s, 5)
		if made.State != InProgress || made.Total != 5 || made.InProgressAt.IsZero() || made.Endpoint != MessagesEndpoint || !made.ResultsGone.IsZero() {
			t.Fatalf("%+v", made)
		}
		if _, err := s.Get(t.Context(), mine(), made.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("batches of files show it: %v", err)
		}
		if err := s.Delete(t.Context(), messages(), made.ID); !fault.Is(err, fault.CodeConflict) || !strings.Contains(err.Error(), InProgress) {
			t.Errorf("deleted at work: %v", err)
		}
		if err := s.Outcomes(t.Context(), messages(), made.ID, nil, nil); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("outcomes at work: %v", err)
		}
		stop := w.start(s)
		b := w.untilOf(s, made.ID)
		stop()
		if b.State != Completed || b.Total != 5 || b.Completed != 4 || b.Failed != 1 || b.Expired+b.Cancelled != 0 || !b.ResultsGone.Equal(b.EndedAt.Add(Window)) {
			t.Errorf("%+v", b)
		}
		order, all := w.outcomes(s, b.ID)
		if strings.Join(order, " ") != "c1 c3 c4 c5 c2" || all["c3"].State != Completed || string(all["c3"].Answer) != `{"echo":{"n":3}}` || all["c2"].State != Failed || string(all["c2"].Answer) != `{"type":"error"}` {
			t.Errorf("%v %+v", order, all)
		}
		broken := errors.New("the reader has left")
		for name, err := range map[string]error{
			"reader": s.Outcomes(t.Context(), messages(), b.ID, roomy, func(Outcome) error { return broken }),
			"room":   s.Outcomes(t.Context(), messages(), b.ID, func(int64) (func(), error) { return nil, broken }, nil),
		} {
			if !errors.Is(err, broken) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, o := range []Scope{mine(), {Owner: files.Owner{Tenant: "bank"}, Endpoints: []string{MessagesEndpoint}}} {
			if err := s.Delete(t.Context(), o, b.ID); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%+v: %v", o, err)
			}
			if err := s.Outcomes(t.Context(), o, b.ID, nil, nil); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		w.faults.Each(t, dbtest.FailsBefore, func() error { return s.Delete(t.Context(), messages(), b.ID) })
		for table, n := range map[string]int64{"batch_batches": 0, "file_files": 0, "file_blobs": 0, "file_chunks": 0} {
			if got := w.rows(table); got != n {
				t.Errorf("%d rows of %s are left", got, table)
			}
		}
	})
}

// TestInputRefuses: what nobody could ask is refused before there is a batch, and what was stored of it goes.
func TestInputRefuses(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{MaxLines: 2, MaxOpen: 1})
	begin := func() *Input {
		in, err := s.NewInput(t.Context(), files.OwnerOf(caller()))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := in.Add("first", []byte(`{}`)); p != nil || err != nil {
			t.Fatal(p, err)
		}
		return in
	}
	for want, c := range map[string]struct{ id, body string }{
		problemDuplicate: {"first", `{}`}, problemID: {strings.Repeat("x", maxCustomID+1), `{}`}, problemBody: {"a", `[1]`}, problemStream: {"a", `{"stream": true}`},
		problemLong: {"a", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`},
	} {
		in := begin()
		if p, err := in.Add(c.id, []byte(c.body)); err != nil || p == nil || p.Code != want {
			t.Errorf("%s: %+v, %v", want, p, err)
		}
		in.Abort(t.Context())
	}
	many := begin()
	_, _ = many.Add("second", []byte(`{}`))
	if p, err := many.Add("third", []byte(`{}`)); err != nil || p == nil || p.Code != problemMany || p.Bound != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	many.Abort(t.Context())
	full := begin()
	w.makeFrom(s, 1)
	if _, err := s.NewInput(t.Context(), files.OwnerOf(caller())); !fault.Is(err, fault.CodeBatchesFull) {
		t.Errorf("the body would be taken for nothing: %v", err)
	}
	if _, err := s.CreateFrom(t.Context(), caller(), NewBatch{ID: "msg" + NewID()}, full); !fault.Is(err, fault.CodeBatchesFull) {
		t.Errorf("%v", err)
	}
	if files, blobs := w.rows("file_files"), w.rows("file_blobs"); files != 1 || blobs != 1 {
		t.Errorf("%d files and %d contents are left, of one batch", files, blobs)
	}
}

// TestEndingsAreCounted: lines that the end of a batch has cut off are told apart from those that failed.
func TestEndingsAreCounted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, ending := range []string{Cancelled, Expired} {
			w := newWorld(t, db)
			reached, let := make(chan struct{}, 9), make(chan struct{})
			w.answer = func(q Request, _ int) Response {
				reached <- struct{}{}
				<-let
				if strings.HasSuffix(q.ID, ".1") {
					return Response{400, http.Header{}, []byte(`{}`)}
				}
				return ok(string(q.Body))
			}
			s := w.replica("a", Limits{ConcurrentPerBatch: 2})
			stop := w.start(s)
			b := w.makeFrom(s, 7)
			<-reached
			<-reached
			s.mu.Lock()
			x := s.running[b.ID]
			s.mu.Unlock()
			if ending == Cancelled {
				if _, err := s.Cancel(t.Context(), messages(), b.ID); err != nil {
					t.Fatal(err)
				}
			} else if err := db.Exec("UPDATE batch_batches SET expires_at = created_at WHERE id = ?", b.ID).Error; err != nil {
				t.Fatal(err)
			} else { // whoever takes over finds it late
				stopped := make(chan struct{})
				go func() { stop(); close(stopped) }()
				<-x.halt.Done() // nothing more is asked
				close(let)
				<-stopped
				s = w.replica("a", Limits{})
				stop = w.start(s)
			}
			if ending == Cancelled {
				close(let)
			}
			b = w.untilOf(s, b.ID)
			cut := map[string]int64{Cancelled: b.Cancelled, Expired: b.Expired}
			if b.State != ending || b.Completed != 1 || b.Failed != 6 || cut[ending] != 5 || b.Cancelled+b.Expired != 5 {
				t.Errorf("%s: %+v", ending, b)
			}
			_, all := w.outcomes(s, b.ID)
			if len(all) != 7 || all["c1"].State != Failed || all["c7"].State != ending || all["c7"].Message == "" || all["c7"].Answer != nil {
				t.Errorf("%s: %+v", ending, all)
			}
			stop()
		}
	})
}

// TestPages: both directions show every batch once, the newest first.
func TestPages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		s := w.replica("a", Limits{})
		var newest []string
		for range 5 {
			newest = append([]string{w.makeFrom(s, 1).ID}, newest...)
			w.make(s, w.input(1)) // which is none of them
		}
		list := func(p Page) ([]string, bool) {
			page, more, err := s.List(context.Background(), messages(), p)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, b := range page {
				ids = append(ids, b.ID)
			}
			return ids, more
		}
		for name, c := range map[string]struct {
			p    Page
			want []string
			more bool
		}{
			"all":               {Page{Limit: 9}, newest, false},
			"the first ones":    {Page{Limit: 2}, newest[:2], true},
			"behind one":        {Page{After: newest[1], Limit: 2}, newest[2:4], true},
			"to the end":        {Page{After: newest[2], Limit: 2}, newest[3:], false},
			"before one":        {Page{Before: newest[4], Limit: 2}, newest[2:4], true},
			"to the beginning":  {Page{Before: newest[2], Limit: 2}, newest[:2], false},
			"before the newest": {Page{Before: newest[0], Limit: 2}, nil, false},
		} {
			if got, more := list(c.p); !slices.Equal(got, c.want) || more != c.more {
				t.Errorf("%s: %v, %v, want %v", name, got, more, c.want)
			}
		}
		for _, none := range []string{"none", newest[0] + "0", "batch_" + strings.Repeat("x", 32), "\x00" + newest[0]} {
			if _, _, err := s.List(t.Context(), messages(), Page{Before: none, Limit: 1}); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%q: %v", none, err)
			}
		}
		stop := w.start(s)
		for _, id := range newest {
			w.untilOf(s, id)
		}
		stop()
		var read []string
		for p, more := (Page{Limit: 2}), true; more; { // whoever deletes what he has read goes on behind it
			var page []string
			page, more = list(p)
			for _, id := range page {
				if err := s.Delete(t.Context(), messages(), id); err != nil {
					t.Fatal(err)
				}
			}
			read, p.After = append(read, page...), page[len(page)-1]
		}
		if !slices.Equal(read, newest) {
			t.Errorf("%v, want %v", read, newest)
		}
	})
}

// TestLongestLine: a request whose line is as long as one may be is asked, and one that is longer is refused before there is a batch; a file likewise.
func TestLongestLine(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	w.answer = func(Request, int) Response { return ok(`1`) }
	s := w.replica("a", Limits{})
	w.start(s)
	const most = 1 << 20
	frame := len(`{"custom_id":"a","method":"POST","url":"/v1/messages","body":{"x":""}}`)
	for over := -1; over <= 1; over++ {
		in, err := s.NewInput(t.Context(), files.OwnerOf(caller()))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := in.Add("short", []byte(`{}`)); p != nil || err != nil {
			t.Fatal(p, err)
		}
		p, err := in.Add("a", []byte(`{"x":"`+strings.Repeat("x", most+over-frame)+`"}`))
		if err != nil || (p != nil) != (over > 0) {
			t.Fatalf("%d more: %+v, %v", over, p, err)
		}
		if p != nil {
			in.Abort(t.Context())
			continue
		}
		b, err := s.CreateFrom(t.Context(), caller(), NewBatch{ID: "msg" + NewID()}, in)
		if err != nil {
			t.Fatal(err)
		}
		if b = w.untilOf(s, b.ID); b.State != Completed || b.Completed != 2 {
			t.Errorf("%d more: %+v", over, b)
		}
	}
	const head, tail = `{"custom_id":"a","method":"POST","url":"/v1/messages","body":{"x":"`, `"}}`
	for over := -1; over <= 1; over++ {
		for _, end := range []string{"", "\n", "\n" + `{"custom_id":"b","method":"POST","url":"/v1/messages","body":{}}`} {
			total, problems, err := check(strings.NewReader(head+strings.Repeat("x", 500+over-len(head+tail))+tail+end), MessagesEndpoint, 500, 9)
			if err != nil || (len(problems) == 0) != (over <= 0) || over <= 0 && total != 1+int64(strings.Count(end, "{")/2) {
				t.Errorf("a file, %d more: %d lines, %+v, %v", over, total, problems, err)
			}
		}
	}
}

// TestLongOutcomes: results that are longer than any buffer come whole, and each waits for its room.
func TestLongOutcomes(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	w.answer = func(q Request, _ int) Response {
		n := map[string]int{"2": outcomeBuffer - 200, "3": outcomeBuffer, "4": 5 * outcomeBuffer}[q.ID[len(q.ID)-1:]]
		return ok(`"` + strings.Repeat(q.ID[len(q.ID)-1:], n) + `"`)
	}
	s := w.replica("a", Limits{})
	w.start(s)
	b := w.untilOf(s, w.makeFrom(s, 5).ID)
	_, all := w.outcomes(s, b.ID)
	if len(all) != 5 || strings.Count(string(all["c4"].Answer), "4") != 5*outcomeBuffer || strings.Count(string(all["c3"].Answer), "3") != outcomeBuffer || string(all["c5"].Answer) != `{"echo":""}` {
		t.Errorf("%d outcomes", len(all))
	}
}

// TestOutcomesAreWhole: where one of two files of results is gone, nothing of the other is told.
func TestOutcomesAreWhole(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	w.answer = func(q Request, _ int) Response {
		if strings.HasSuffix(q.ID, ".2") {
			return Response{400, http.Header{}, []byte(`{}`)}
		}
		return ok(string(q.Body))
	}
	s := w.replica("a", Limits{})
	w.start(s)
	b := w.untilOf(s, w.makeFrom(s, 2).ID)
	if err := w.files.Delete(t.Context(), files.OwnerOf(caller()), b.ErrorFile); err != nil {
		t.Fatal(err)
	}
	err := s.Outcomes(t.Context(), messages(), b.ID, roomy, func(o Outcome) error { t.Errorf("told %+v", o); return nil })
	if !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("%v", err)
	}
}

// TestCreateFromFails: where the database fails while requests become a batch, nothing is left of them; where only the answer of the database is lost, a batch
// that is there has its input.
func TestCreateFromFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			w := newWorld(t, db)
			s := w.replica("a", Limits{})
			n := int64(0)
			w.faults.Each(t, how, func() error {
				n++
				in, err := s.NewInput(t.Context(), files.OwnerOf(caller()))
				if err != nil {
					return err
				}
				if p, err := in.Add("c1", fmt.Appendf(nil, `{"n":%d}`, n)); p != nil || err != nil {
					t.Fatal(p, err)
				}
				_, err = s.CreateFrom(t.Context(), caller(), NewBatch{ID: "msg" + NewID()}, in)
				in.Abort(t.Context())
				batches := w.rows("batch_batches")
				if how == dbtest.FailsBefore && err != nil {
					if files, blobs := w.rows("file_files"), w.rows("file_blobs"); batches+files+blobs != 0 {
						t.Errorf("fault %d leaves %d batches, %d files and %d contents", n, batches, files, blobs)
					}
				}
				var whole int64
				if err := db.Raw("SELECT COUNT(*) FROM batch_batches b JOIN file_files f ON f.id = b.input_file AND f.holds = 1 JOIN file_blobs o ON o.id = f.blob AND o.digest <> ''").Scan(&whole).Error; err != nil {
					t.Fatal(err)
				}
				if whole != batches {
					t.Errorf("fault %d: %d of %d batches have their input", n, whole, batches)
				}
				return err
			})
			if b := w.rows("batch_batches"); b == 0 || how == dbtest.FailsBefore && b != 1 || n < 10 {
				t.Errorf("%d batches of %d tries", b, n)
			}
		}
	})
}

// TestDeletedIsOverwritten: what is deleted of a batch does not stay in the file of the database.
func TestDeletedIsOverwritten(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{})
	stop := w.start(s)
	b := w.untilOf(s, w.makeFrom(s, 1).ID)
	stop()
	var last string
	var mu sync.Mutex
	w.faults.Set(func(op string) dbtest.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(op, "DELETE FROM `batch_batches`") && last != "PRAGMA secure_delete = ON" {
			t.Errorf("deleted after %q", last)
		}
		last = op
		return dbtest.Healthy
	})
	if err := s.Delete(t.Context(), messages(), b.ID); err != nil || w.rows("batch_batches") != 0 || last != "commit" {
		t.Errorf("%q, %v", last, err)
	}
}
