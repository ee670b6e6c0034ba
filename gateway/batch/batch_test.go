package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func ring() *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{7}, 32)) }

func caller() identity.Principal {
	return identity.Principal{Tenant: "acme", Project: "p", Kind: "key", ID: "k1"}
}

// mine are the batches of files of the caller.
func mine() Scope { return Scope{Owner: files.OwnerOf(caller()), Endpoints: Endpoints()} }

// world is a database, and what the lines of its batches are told.
type world struct {
	t      *testing.T
	db     *gorm.DB
	faults dbtest.Faults
	files  *files.Store

	mu      sync.Mutex
	asked   map[string]int // by request id
	answer  func(q Request, times int) Response
	refuses error // of whoever made the batches
	now     time.Time
}

func newWorld(t *testing.T, db *gorm.DB) *world {
	return newWorldOf(t, db, files.Limits{})
}

func newWorldOf(t *testing.T, db *gorm.DB, l files.Limits) *world {
	w := &world{t: t, db: db, asked: map[string]int{}, now: time.Now(), answer: func(q Request, _ int) Response { return ok(string(q.Body)) }}
	var err error
	w.files, err = files.New(files.Config{Limits: l, DB: w.faults.Over(db), Keys: ring(), Suite: seal.Intl, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ok(body string) Response { return Response{200, http.Header{}, []byte(`{"echo":` + body + `}`)} }

func later(ms string) Response {
	return Response{429, http.Header{"Retry-After-Ms": {ms}}, []byte(`{"error":{}}`)}
}

// replica returns a service of a node.
func (w *world) replica(node string, l Limits) *Service {
	w.t.Helper()
	s, err := New(Config{
		Limits: l, DB: w.faults.Over(w.db), Keys: ring(), Suite: seal.Intl, Files: w.files, MaxLineBytes: 1 << 20, Node: node, Log: slog.New(slog.DiscardHandler),
		Act: func(context.Context, identity.Acting, string) (identity.Principal, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return caller(), w.refuses
		},
		Ask: func(_ context.Context, q Request) Response {
			w.mu.Lock()
			w.asked[q.ID]++
			n, answer := w.asked[q.ID], w.answer
			w.mu.Unlock()
			return answer(q, n)
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s.now = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	}
	return s
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// start runs a replica until stop is called, or the test ends.
func (w *world) start(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// input stores a file of n lines, each with its number.
func (w *world) input(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"c%d","method":"POST","url":"/v1/embeddings","body":{"n":%d}}`+"\n", i+1, i+1)
	}
	return w.file(text.String())
}

func (w *world) file(text string) string {
	w.t.Helper()
	u, err := w.files.Begin(w.t.Context(), files.OwnerOf(caller()))
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(u, text); err != nil {
		w.t.Fatal(err)
	}
	f, err := u.Commit(files.NewFile{ID: files.NewID(), Name: "in.jsonl", Purpose: files.PurposeBatch})
	if err != nil {
		w.t.Fatal(err)
	}
	return f.ID
}

func (w *world) make(s *Service, input string) string {
	w.t.Helper()
	b, err := s.Create(w.t.Context(), caller(), NewBatch{
		ID: NewID(), Endpoint: "/v1/embeddings", InputFile: input, Metadata: map[string]string{"note": "canary-note"}, Source: "192.0.2.1", Language: "en",
		OnBehalfOf: "canary-person",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.ID
}

// until waits for a state of a batch.
func (w *world) until(s *Service, id string, what string, ok func(Batch) bool) Batch {
	w.t.Helper()
	return w.untilIn(s, mine(), id, what, ok)
}

func (w *world) untilIn(s *Service, o Scope, id string, what string, ok func(Batch) bool) Batch {
	w.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		b, err := s.Get(w.t.Context(), o, id)
		if err == nil && ok(b) {
			return b
		}
		select {
		case <-deadline:
			w.t.Fatalf("waited for %s: %+v, %v", what, b, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func in(states ...string) func(Batch) bool {
	return func(b Batch) bool { return slices.Contains(states, b.State) }
}

// results reads a file of results, by custom id.
func (w *world) results(id string) (order []string, all map[string]wireResult) {
	w.t.Helper()
	all = map[string]wireResult{}
	if id == "" {
		return nil, all
	}
	_, r, err := w.files.Open(w.t.Context(), files.OwnerOf(caller()), id)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	for text := range strings.Lines(string(raw)) {
		var x wireResult
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			w.t.Fatalf("%q: %v", text, err)
		}
		if _, twice := all[x.CustomID]; twice {
			w.t.Errorf("%s has two results", x.CustomID)
		}
		order = append(order, x.CustomID)
		all[x.CustomID] = x
	}
	return order, all
}

func (w *world) rows(table string) (n int64) {
	w.t.Helper()
	if err := w.db.Table(table).Count(&n).Error; err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestBatch: every line is asked once as it stands, its answer stands in one of the two files in the order of the input, and what is left of the batch shows
// nothing in clear.
func TestBatch(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		w.answer = func(q Request, times int) Response {
			switch {
			case strings.HasSuffix(q.ID, ".3"):
				return Response{400, http.Header{}, []byte(`{"error":{"code":"bad"}}`)}
			case strings.HasSuffix(q.ID, ".4") && times < 3:
				return later("1")
			case strings.HasSuffix(q.ID, ".5"):
				return Response{429, http.Header{"Retry-After": {"1"}, "X-Should-Retry": {"false"}}, []byte(`quota`)}
			}
			return ok(string(q.Body))
		}
		s := w.replica("a", Limits{})
		w.start(s)
		input := w.input(40)
		b := w.until(s, w.make(s, input), "the end", in(Completed, Failed))
		if b.State != Completed || b.Total != 40 || b.Completed != 38 || b.Failed != 2 || b.InProgressAt.IsZero() || b.FinalizingAt.IsZero() || b.EndedAt.IsZero() || b.Metadata["note"] != "canary-note" {
			t.Fatalf("%+v", b)
		}
		order, good := w.results(b.OutputFile)
		_, bad := w.results(b.ErrorFile)
		if len(good) != 38 || len(bad) != 2 || !slices.IsSortedFunc(order, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }) {
			t.Errorf("%v and %v", order, bad)
		}
		if r := good["c17"].Response; r == nil || r.StatusCode != 200 || r.RequestID != b.ID+".17" || string(r.Body) != `{"echo":{"n":17}}` || good["c17"].Error != nil {
			t.Errorf("%+v", r)
		}
		if r := bad["c3"].Response; r == nil || r.StatusCode != 400 || string(r.Body) != `{"error":{"code":"bad"}}` {
			t.Errorf("%+v", bad["c3"])
		}
		if r := bad["c5"].Response; r == nil || r.StatusCode != 429 || string(r.Body) != `"quota"` {
			t.Errorf("%+v", bad["c5"])
		}
		for n := 1; n <= 40; n++ {
			if want := map[int]int{4: 3}[n]; w.asked[requestID(b.ID, int64(n))] != max(want, 1) {
				t.Errorf("line %d was asked %d times", n, w.asked[requestID(b.ID, int64(n))])
			}
		}
		if w.rows("batch_lines") != 0 {
			t.Error("results stand there twice")
		}
		if err := w.files.Delete(t.Context(), files.OwnerOf(caller()), input); err != nil {
			t.Errorf("the input is still held: %v", err)
		}
		for _, o := range []Scope{
			{Owner: files.Owner{Tenant: "bank"}, Endpoints: Endpoints()},
			{Owner: files.Owner{Tenant: "acme", Project: "q"}, Endpoints: Endpoints()},
			{Owner: files.Owner{Tenant: "acme", Project: "p", Person: "ada"}, Endpoints: Endpoints()},
			{Owner: files.OwnerOf(caller()), Endpoints: []string{MessagesEndpoint}},
		} {
			if _, err := s.Get(t.Context(), o, b.ID); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%+v: %v", o, err)
			}
			if _, err := s.Cancel(t.Context(), o, b.ID); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%+v: %v", o, err)
			}
			if page, _, err := s.List(t.Context(), o, Page{Limit: 10}); err != nil || len(page) > 0 {
				t.Errorf("%+v: %+v, %v", o, page, err)
			}
		}
		var sealed [][]byte
		if err := db.Table("batch_batches").Pluck("metadata", &sealed).Error; err != nil || len(sealed) != 1 || bytes.Contains(sealed[0], []byte("canary")) {
			t.Errorf("%q, %v", sealed, err)
		}
	})
}

// TestLargeResults: the files of results are written without that many large results are held at one time.
func TestLargeResults(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		large := `"` + strings.Repeat("x", heldResults*2/3) + `"`
		w.answer = func(q Request, _ int) Response {
			if strings.HasSuffix(q.ID, "0") {
				return ok(large)
			}
			return ok(string(q.Body))
		}
		s := w.replica("a", Limits{})
		var most atomic.Int64
		err := s.db.Callback().Query().After("gorm:query").Register("test:held", func(tx *gorm.DB) {
			if rows, ok := tx.Statement.Dest.(*[]lineRow); ok {
				var held int64
				for _, r := range *rows {
					held += int64(len(r.Sealed))
				}
				most.Store(max(most.Load(), held))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		w.start(s)
		b := w.until(s, w.make(s, w.input(40)), "the end", in(Completed, Failed))
		order, all := w.results(b.OutputFile)
		if len(order) != 40 || order[9] != "c10" || len(all["c30"].Response.Body) < len(large) {
			t.Errorf("%+v, %v", b, order)
		}
		if n := most.Load(); n == 0 || n > heldResults {
			t.Errorf("%d bytes of results were held at one time", n)
		}
	})
}

// TestInputs: what is wrong with a file is named by line, and nothing of it is asked.
func TestInputs(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{MaxLines: 4})
	w.start(s)
	const good = `{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{}}`
	swap := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, c := range map[string]struct {
		text string
		want []Problem
	}{
		"nothing":   {"\n\n", []Problem{{Code: problemEmpty}}},
		"no JSON":   {good + "\nx", []Problem{{Code: problemJSON, Line: 2}}},
		"no id":     {swap(`"custom_id":"a",`, ""), []Problem{{Code: problemMissing, Line: 1, Param: "custom_id"}}},
		"empty id":  {swap(`"a"`, `""`), []Problem{{Code: problemID, Line: 1, Param: "custom_id", Bound: maxCustomID}}},
		"duplicate": {good + "\n\n" + good, []Problem{{Code: problemDuplicate, Line: 3, Param: "custom_id"}}},
		"GET":       {swap("POST", "GET"), []Problem{{Code: problemMethod, Line: 1, Param: "method"}}},
		"other url": {swap("/v1/embeddings", "/v1/chat/completions"), []Problem{{Code: problemURL, Line: 1, Param: "url", About: "/v1/embeddings"}}},
		"no object": {swap("{}", "[]"), []Problem{{Code: problemBody, Line: 1, Param: "body"}}},
		"a stream":  {swap("{}", `{"stream": true}`), []Problem{{Code: problemStream, Line: 1, Param: "body.stream"}}},
		"disguised": {swap("{}", `{"stream": true, "STREAM": false}`), []Problem{{Code: problemStream, Line: 1, Param: "body.stream"}}},
		"long":      {good + "\n" + swap("{}", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`), []Problem{{Code: problemLong, Line: 2, Bound: 1 << 20}}},
		"many":      {strings.Join([]string{swap(`"a"`, `"1"`), swap(`"a"`, `"2"`), swap(`"a"`, `"3"`), swap(`"a"`, `"4"`), swap(`"a"`, `"5"`)}, "\n"), []Problem{{Code: problemMany, Bound: 4}}},
		"several":   {"x\n" + swap("POST", "GET"), []Problem{{Code: problemJSON, Line: 1}, {Code: problemMethod, Line: 2, Param: "method"}}},
	} {
		b := w.until(s, w.make(s, w.file(c.text)), "the end", in(Failed, Completed))
		if b.State != Failed || !slices.Equal(b.Problems, c.want) || b.EndedAt.IsZero() {
			t.Errorf("%s: %+v, want %+v", name, b, c.want)
		}
		for _, p := range b.Problems {
			if m := p.Message(); strings.Contains(m.In(fault.English), "%!") || m.In(fault.English) == m.In(fault.Chinese) {
				t.Errorf("%s: %s", name, m.In(fault.English))
			}
		}
	}
	if len(w.asked) > 0 {
		t.Errorf("%v", w.asked)
	}
}

// TestCreateRefuses: what cannot be a batch is refused at once, and holds no file.
func TestCreateRefuses(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{MaxOpen: 1})
	input := w.input(1)
	create := func(n NewBatch, by identity.Principal) error {
		n.ID = NewID()
		_, err := s.Create(t.Context(), by, n)
		return err
	}
	other := caller()
	other.Project = "q"
	u, err := w.files.Begin(t.Context(), files.OwnerOf(caller()))
	if err != nil {
		t.Fatal(err)
	}
	data, err := u.Commit(files.NewFile{ID: files.NewID(), Name: "x", Purpose: files.PurposeUserData})
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[fault.Code]error{
		fault.CodeInvalidValue: create(NewBatch{Endpoint: "/v1/rerank", InputFile: input}, caller()),
		fault.CodeNotFound:     create(NewBatch{Endpoint: "/v1/embeddings", InputFile: input}, other),
	} {
		if !fault.Is(err, want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := create(NewBatch{Endpoint: "/v1/embeddings", InputFile: data.ID}, caller()); !fault.Is(err, fault.CodeInvalidValue) {
		t.Errorf("a file of user data: %v", err)
	}
	w.make(s, input)
	if err := create(NewBatch{Endpoint: "/v1/embeddings", InputFile: input}, caller()); !fault.Is(err, fault.CodeBatchesFull) {
		t.Errorf("a batch more: %v", err)
	}
	if err := w.files.Delete(t.Context(), files.OwnerOf(caller()), input); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("the input of a batch: %v", err)
	}
}

// TestStrangeIDs: what no database takes as text is the id of nothing.
func TestStrangeIDs(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		s, o := w.replica("a", Limits{}), mine()
		for _, id := range []string{"\x00", "batch_\xff"} {
			_, err := s.Get(t.Context(), o, id)
			_, err2 := s.Cancel(t.Context(), o, id)
			_, _, err3 := s.List(t.Context(), o, Page{After: id, Limit: 1})
			_, err4 := s.Create(t.Context(), caller(), NewBatch{ID: NewID(), Endpoint: "/v1/embeddings", InputFile: id})
			for _, err := range []error{err, err2, err3, err4} {
				if !fault.Is(err, fault.CodeNotFound) {
					t.Errorf("%q: %v", id, err)
				}
			}
		}
	})
}

// TestCancel: nothing more is asked, what is being asked keeps its answer, and the other lines say that they were cancelled.
func TestCancel(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		reached, let := make(chan struct{}, 99), make(chan struct{})
		w.answer = func(q Request, _ int) Response {
			if strings.HasSuffix(q.ID, ".1") {
				return ok(`1`)
			}
			reached <- struct{}{}
			<-let
			return ok(string(q.Body))
		}
		s := w.replica("a", Limits{ConcurrentPerBatch: 2})
		w.start(s)
		id := w.make(s, w.input(450))
		<-reached
		<-reached
		w.until(s, id, "the first result", func(b Batch) bool { return b.Completed == 1 })
		b, err := s.Cancel(t.Context(), mine(), id)
		if err != nil || b.State != Cancelling || b.CancellingAt.IsZero() {
			t.Fatalf("%+v, %v", b, err)
		}
		if _, err := s.Cancel(t.Context(), mine(), id); err != nil {
			t.Errorf("a second time: %v", err)
		}
		close(let)
		b = w.until(s, id, "the end", in(Cancelled))
		_, good := w.results(b.OutputFile)
		_, bad := w.results(b.ErrorFile)
		if len(good) != 3 || len(bad) != 447 || b.Completed != 3 || b.Failed != 447 || b.Total != 450 || bad["c450"].Error == nil || bad["c450"].Error.Code != "batch_cancelled" {
			t.Errorf("%d and %d results: %+v", len(good), len(bad), b)
		}
		if _, err := s.Cancel(t.Context(), mine(), id); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestExpiry: when the window ends, lines that wait to come back and lines that were not asked say so, and the rest keeps its results.
// TestAny: a batch counts for its tenant, whatever became of its files, and nobody takes a failure for none.
func TestAny(t *testing.T) {
	db := dbtest.SQLite(t)
	w := newWorld(t, db)
	has := func(tenant string) bool {
		t.Helper()
		has, err := Any(db, tenant)
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	if has("acme") {
		t.Error("a batch before the first")
	}
	s := w.replica("a", Limits{})
	w.make(s, w.input(1))
	if !has("acme") || has("other") {
		t.Error("the batch is not of its tenant alone")
	}
	faults := &dbtest.Faults{}
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	if _, err := Any(faults.Over(db), "acme"); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestExpiry(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	w.answer = func(q Request, _ int) Response {
		if strings.HasSuffix(q.ID, ".2") {
			return later("1")
		}
		return ok(string(q.Body))
	}
	s := w.replica("a", Limits{})
	stop := w.start(s)
	id := w.make(s, w.input(3))
	w.until(s, id, "two results", func(b Batch) bool { return b.Completed == 2 })
	stop() // the clock of a context is not ours to move
	w.advance(Window)
	w.start(s)
	b := w.until(s, id, "the end", in(Expired))
	_, good := w.results(b.OutputFile)
	_, bad := w.results(b.ErrorFile)
	if len(good) != 2 || len(bad) != 1 || bad["c2"].Error == nil || bad["c2"].Error.Code != "batch_expired" || bad["c2"].Response != nil {
		t.Errorf("%v and %+v", good, bad)
	}
}

// TestLostRights: who may no longer ask has the lines that are left told why.
func TestLostRights(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	w.answer = func(q Request, _ int) Response {
		if strings.HasSuffix(q.ID, ".5") {
			w.mu.Lock()
			w.refuses = fault.New(fault.CodeExpiredKey)
			w.mu.Unlock()
		}
		return ok(string(q.Body))
	}
	s := w.replica("a", Limits{ConcurrentPerBatch: 1})
	w.start(s)
	b := w.until(s, w.make(s, w.input(9)), "the end", in(Completed))
	_, bad := w.results(b.ErrorFile)
	if b.Completed != 5 || len(bad) != 4 || bad["c9"].Error == nil || bad["c9"].Error.Code != string(fault.CodeExpiredKey) || len(w.asked) != 5 {
		t.Errorf("%+v, %+v, %v", b, bad, w.asked)
	}
}

// TestComesBack: a refusal that passes brings a line back, after a pause that grows; what waiting does not mend is its result.
func TestComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		wait   time.Duration
		again  bool
	}{
		"a limit":             {429, http.Header{"Retry-After": {"7"}}, 7 * time.Second, true},
		"in milliseconds":     {429, http.Header{"Retry-After": {"1"}, "Retry-After-Ms": {"40"}}, 40 * time.Millisecond, true},
		"away":                {503, http.Header{}, 0, true},
		"unreadable":          {503, http.Header{"Retry-After": {"-1"}}, 0, true},
		"a quota":             {429, http.Header{"Retry-After": {"1"}, "X-Should-Retry": {"false"}}, 0, false},
		"still at work":       {409, http.Header{"Retry-After": {"1"}}, time.Second, true},
		"a conflict for good": {409, http.Header{}, 0, false},
		"a failure":           {500, http.Header{"Retry-After": {"1"}}, 0, false},
	} {
		if wait, again := comeBack(Response{c.status, c.header, nil}); again != c.again || again && wait != c.wait {
			t.Errorf("%s: %s, %v", name, wait, again)
		}
	}
	var waits []time.Duration
	for before := time.Duration(0); len(waits) < 7; waits = append(waits, before) {
		before = pause(before, 0)
	}
	second := time.Second
	if want := []time.Duration{second, 2 * second, 4 * second, 8 * second, 16 * second, 30 * second, 30 * second}; !slices.Equal(waits, want) {
		t.Errorf("%v", waits)
	}
	if got := []time.Duration{pause(0, 1), pause(0, 9*second), pause(30*second, 60*second), pause(4*second, second)}; !slices.Equal(got, []time.Duration{shortWait, 9 * second, 60 * second, 8 * second}) {
		t.Errorf("%v", got)
	}
}

// TestAnswersAreNotLost: an answer that the database does not take at once is stored a moment later; nobody is asked for it again.
func TestAnswersAreNotLost(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{})
	var refused atomic.Int64
	w.answer = func(q Request, _ int) Response {
		w.faults.Set(func(op string) dbtest.Outcome {
			if strings.Contains(op, "batch_lines") && strings.Contains(op, "INSERT") && refused.Add(1) <= 3 {
				return dbtest.FailsBefore
			}
			return dbtest.Healthy
		})
		return ok(string(q.Body))
	}
	w.start(s)
	id := w.make(s, w.input(1))
	b := w.until(s, id, "the end", in(Completed, Failed))
	if b.Completed != 1 || w.asked[id+".1"] != 1 || refused.Load() != 4 {
		t.Errorf("%+v, asked %v, stored after %d tries", b, w.asked, refused.Load())
	}
}

// begun returns work on a batch whose input is checked.
func (w *world) begun(s *Service, id string) *work {
	w.t.Helper()
	if got, err := s.next(w.t.Context(), nil); err != nil || got != id {
		w.t.Fatal(got, err)
	}
	x := s.enter(w.t.Context(), id)
	w.t.Cleanup(func() { s.leave(x) })
	if _, err := s.read(w.t.Context(), x); err != nil {
		w.t.Fatal(err)
	}
	if err := s.validate(w.t.Context(), x); err != nil {
		w.t.Fatal(err)
	}
	if _, err := s.read(w.t.Context(), x); err != nil {
		w.t.Fatal(err)
	}
	return x
}

// TestStops: nobody stops the batch of somebody else, and work that was stopped although its batch goes on ends, to begin anew.
func TestStops(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{})
	id := w.make(s, w.input(2))
	x := w.begun(s, id)
	if _, err := s.Cancel(t.Context(), Scope{Owner: files.Owner{Tenant: "bank"}, Endpoints: Endpoints()}, id); !fault.Is(err, fault.CodeNotFound) || x.halt.Err() != nil {
		t.Errorf("a foreign batch: %v, %v", err, x.halt.Err())
	}
	s.stopWork(id)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.work(ctx, x); !errors.Is(err, errHalted) {
		t.Errorf("%v", err)
	}
}

// TestWaitingEndsWithTheLease: a line that waits to come back does not outlive the work on its batch.
func TestWaitingEndsWithTheLease(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	s := w.replica("a", Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.answer = func(Request, int) Response {
		time.AfterFunc(20*time.Millisecond, cancel) // when the line waits
		return later("600000")
	}
	x := w.begun(s, w.make(s, w.input(1)))
	done := make(chan error, 1)
	go func() { done <- s.askLines(ctx, x.halt, x) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the line still waits")
	}
}

// TestQuota: when results and files of a tenant take as much as it may have, the lines that are left say so, and nobody is asked. What a batch has stored
// counts until it is in files, and once.
func TestQuota(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorldOf(t, db, files.Limits{MaxFileBytes: 10_000, MaxTenantBytes: 20_000})
		w.answer = func(Request, int) Response { return ok(`"` + strings.Repeat("x", 6000) + `"`) }
		s := w.replica("a", Limits{ConcurrentPerBatch: 1})
		w.start(s)
		b := w.until(s, w.make(s, w.input(9)), "the end", in(Completed, Failed))
		_, good := w.results(b.OutputFile)
		_, bad := w.results(b.ErrorFile)
		if b.Completed != 4 || len(good) != 4 || len(bad) != 5 || len(w.asked) != 4 || bad["c9"].Error == nil || bad["c9"].Error.Code != string(fault.CodeFilesFull) {
			t.Errorf("%+v, %+v, asked %v", b, bad, w.asked)
		}
		if err := s.room(t.Context(), "acme"); !fault.Is(err, fault.CodeFilesFull) {
			t.Errorf("the files of results do not count: %v", err)
		}
		if err := w.files.Delete(t.Context(), files.OwnerOf(caller()), b.OutputFile); err != nil {
			t.Fatal(err)
		}
		if err := s.room(t.Context(), "acme"); err != nil {
			t.Errorf("results count twice: %v", err)
		}
		if err := s.room(t.Context(), "bank"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
	})
}

// TestTakeover: while a replica lives nobody else runs its batch; when its lease has run out another one does, and asks the lines without results. The first
// one, which comes back in the middle of a line, changes nothing.
func TestTakeover(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		stuck, let := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w.answer = func(q Request, times int) Response {
			if strings.HasSuffix(q.ID, ".7") && times == 1 {
				once.Do(func() { close(stuck) })
				<-let
				return ok(`"late"`)
			}
			return ok(string(q.Body))
		}
		one, two := w.replica("one", Limits{}), w.replica("two", Limits{})
		id := w.make(one, w.input(30))
		stopOne := w.start(one)
		<-stuck
		w.until(one, id, "the other results", func(b Batch) bool { return b.Completed == 29 })
		if got, err := two.next(t.Context(), nil); err != nil || got != "" {
			t.Fatalf("a batch that runs was taken: %q, %v", got, err)
		}
		// The first replica is paused: it prolongs nothing any more.
		if err := db.Exec("UPDATE batch_batches SET holder = 'paused' WHERE id = ?", id).Error; err != nil {
			t.Fatal(err)
		}
		w.advance(leaseFor + time.Second)
		w.start(two)
		b := w.until(two, id, "the end", in(Completed))
		close(let)
		stopOne()
		_, good := w.results(b.OutputFile)
		if len(good) != 30 || string(good["c7"].Response.Body) != `{"echo":{"n":7}}` || w.asked[id+".7"] != 2 || w.asked[id+".8"] != 1 {
			t.Errorf("%d results, line 7: %s, asked %v", len(good), good["c7"].Response.Body, w.asked)
		}
		if again, err := two.Get(t.Context(), mine(), id); err != nil || again.Completed != 30 || again.State != Completed {
			t.Errorf("%+v, %v", again, err)
		}
	})
}

// TestFairness: a tenant leaves room for another one, that has few batches and comes late, however many it has itself.
func TestFairness(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		s := w.replica("a", Limits{Running: 3, MaxOpen: 5000})
		input := w.input(1)
		var many []string
		for range 7 {
			many = append(many, w.make(s, input))
			w.advance(time.Millisecond)
		}
		take := func(want string) {
			t.Helper()
			id, err := s.next(t.Context(), nil)
			if err != nil || id != want {
				t.Fatalf("%q, %v, want %q", id, err, want)
			}
			if id != "" {
				s.enter(t.Context(), id)
			}
		}
		take(many[0])
		take(many[1])
		take("") // the third place is for somebody else
		err := db.Exec(`INSERT INTO batch_batches (`+strings.Join(columns(), ", ")+`) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			SELECT 'extra' || n.i, `+strings.Join(columns()[1:], ", ")+` FROM batch_batches, n WHERE id = ?`, waitingAtOnce, many[6]).Error
		if err != nil {
			t.Fatal(err)
		}
		other := w.make(s, input)
		if err := db.Exec("UPDATE batch_batches SET tenant = 'bank' WHERE id = ?", other).Error; err != nil {
			t.Fatal(err)
		}
		take(other)
		take("")
		one := w.replica("b", Limits{Running: 1})
		if id, err := one.next(t.Context(), map[string]time.Time{many[2]: w.now.Add(time.Minute)}); err != nil || id != many[3] {
			t.Errorf("the only place: %q, %v", id, err)
		}
	})
}

// TestWhenTheDatabaseFails: whichever operation fails, before or after it was carried out, the batch ends with one result for each line.
func TestWhenTheDatabaseFails(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for n := 1; ; n++ {
				w := newWorld(t, db)
				w.answer = func(q Request, _ int) Response {
					if strings.HasSuffix(q.ID, ".2") {
						return Response{400, http.Header{}, []byte("{}")}
					}
					return ok(string(q.Body))
				}
				s := w.replica("a", Limits{ConcurrentPerBatch: 1})
				id := w.make(s, w.input(2))
				seen := 0
				var mu sync.Mutex
				w.faults.Set(func(string) dbtest.Outcome {
					mu.Lock()
					defer mu.Unlock()
					if seen++; seen == n {
						return how
					}
					return dbtest.Healthy
				})
				for range 5 { // a turn that broke off is followed by another one
					got, err := s.next(t.Context(), nil)
					if err != nil {
						continue
					}
					if got == "" {
						break
					}
					x := s.enter(t.Context(), got)
					err = s.work(t.Context(), x)
					s.leave(x)
					if err != nil && !fault.Is(err, fault.CodeDatabaseUnavailable) && !errors.Is(err, dbtest.ErrInjected) {
						t.Fatalf("operation %d: %v", n, err)
					}
				}
				w.faults.Set(nil)
				b := w.until(s, id, "the end", in(Completed, Failed))
				_, good := w.results(b.OutputFile)
				_, bad := w.results(b.ErrorFile)
				if b.State != Completed || len(good) != 1 || len(bad) != 1 || b.Completed != 1 || b.Failed != 1 {
					t.Fatalf("operation %d, %v: %+v, %v and %v", n, how, b, good, bad)
				}
				if seen < n {
					if n < 20 {
						t.Fatalf("only %d operations: the test proves nothing", n)
					}
					break
				}
			}
		}
	})
}

// TestOutlivesRotations: a batch goes on, and shows its metadata, under the newest wrapping key.
func TestOutlivesRotations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		s := w.replica("a", Limits{})
		id := w.make(s, w.input(3))
		if got, err := s.next(t.Context(), nil); err != nil || got != id {
			t.Fatal(got, err)
		}
		x := s.enter(t.Context(), id)
		if _, err := s.read(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if err := s.validate(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		r, err := answered(id, line{1, "c1", nil}, ok("1"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := answered(id, line{1, "c1", nil}, Response{500, http.Header{}, []byte("2")})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []result{r, second, r} { // whoever comes second changes nothing
			if _, err := s.put(db, x, one); err != nil {
				t.Fatal(err)
			}
		}
		s.leave(x)
		wrapkeytest.Rotate(t, db, ring(), Wrapped(ring()))
		next := w.replica("a", Limits{})
		w.start(next)
		b := w.until(next, id, "the end", in(Completed, Failed))
		_, good := w.results(b.OutputFile)
		if b.State != Completed || b.Completed != 3 || b.Failed != 0 || b.Metadata["note"] != "canary-note" || string(good["c1"].Response.Body) != `{"echo":1}` || w.asked[id+".1"] != 0 {
			t.Errorf("%+v, %v", b, w.asked)
		}
	})
}

// TestUnreadable: a batch whose input, key or results cannot be opened fails, instead of being tried for ever.
func TestUnreadable(t *testing.T) {
	for name, sql := range map[string]string{
		"input":           "UPDATE file_chunks SET sealed = zeroblob(99)",
		"key of the file": "UPDATE file_blobs SET wrapped = zeroblob(60)",
		"key":             "UPDATE batch_batches SET wrapped = zeroblob(60)",
	} {
		w := newWorld(t, dbtest.SQLite(t))
		s := w.replica("a", Limits{})
		id := w.make(s, w.input(3))
		if err := w.db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
		stop := w.start(s)
		deadline, state := time.After(30*time.Second), ""
		for state != Failed {
			if err := w.db.Raw("SELECT state FROM batch_batches WHERE id = ?", id).Scan(&state).Error; err != nil {
				t.Fatal(err)
			}
			select {
			case <-deadline:
				t.Fatalf("%s: the batch is %s", name, state)
			case <-time.After(10 * time.Millisecond):
			}
		}
		stop()
	}
}
