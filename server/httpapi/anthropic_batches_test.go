package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// readRequests reads a body of requests that have at most most bytes each, and returns how many there were and how much of the body was taken. seen is called with
// what is held by then of all bodies.
func readRequests(from io.Reader, most int64, seen func(held int64)) (n int, taken int64, err error) {
	bodies := inflight.New(inflight.Config{All: 1 << 30, PerTenant: 1 << 30, PerCaller: 1 << 30})
	body := &valueReader{from: from, most: most, in: bodies}
	a := &API{}
	err = a.newRequestReader(body, func(string, []byte) error {
		n++
		seen(bodies.Held())
		return nil
	}).read()
	body.hold(0)
	if bodies.Held() != 0 {
		err = fmt.Errorf("%d bytes are held for ever", bodies.Held())
	}
	return n, body.taken, err
}

// ofLength is a request of n bytes.
func ofLength(n int) string { return `{"x":"` + strings.Repeat("x", n-8) + `"}` }

// TestValuesAreBounded: a body of any length is read, as long as no value in it is longer than one may be, to the byte, and of one that is no more than that; no
// more is held at any time than one value and what has come behind it.
func TestValuesAreBounded(t *testing.T) {
	const most = 4 << 10
	var held int64
	seen := func(n int64) { held = max(held, n) }
	many := `{"requests":[` + strings.Repeat(ofLength(1000)+" ,\n", 999) + ofLength(most) + "]}"
	if n, taken, err := readRequests(strings.NewReader(many), most, seen); n != 1000 || err != nil || taken != int64(len(many)) || held == 0 || held > most+valueFrame {
		t.Errorf("%d values of %d bytes, %d were held, %v", n, taken, held, err)
	}
	for _, first := range []int{8, 1000, most} {
		for over := -1; over <= 1; over++ {
			n, _, err := readRequests(strings.NewReader(`{"requests":[`+ofLength(first)+", "+ofLength(most+over)+","+ofLength(9)+"]}"), most, seen)
			want := map[bool]int{true: 1, false: 3}[over > 0]
			if n != want || (err != nil) != (over > 0) || err != nil && (!fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != "requests[1]") {
				t.Errorf("%d more behind %d: %d values, %v", over, first, n, err)
			}
		}
	}
	n, taken, err := readRequests(strings.NewReader(`{"requests":[`+ofLength(1000)+","+ofLength(1<<20)+"]}"), most, seen)
	if n != 1 || !fault.Is(err, fault.CodeInvalidValue) || taken > 1100+most+valueFrame {
		t.Errorf("%d values, %d bytes were taken, %v", n, taken, err)
	}
}

// TestSlowBodyHoldsLittle: of a body that comes slowly no more is held than what is there of the request that comes.
func TestSlowBodyHoldsLittle(t *testing.T) {
	var most int64
	body := `{"requests":[` + strings.Repeat(ofLength(200)+",", 99) + ofLength(200) + "]}"
	n, _, err := readRequests(iotest.OneByteReader(strings.NewReader(body)), 1<<20, func(held int64) { most = max(most, held) })
	if n != 100 || err != nil || most < 200 || most > 210 {
		t.Errorf("%d requests, %d bytes were held, %v", n, most, err)
	}
}

// TestBrokenRequests: what is wrong is said of where it is, and why a body broke off stays the cause.
func TestBrokenRequests(t *testing.T) {
	gone := errors.New("the client has left")
	for name, c := range map[string]struct {
		from  io.Reader
		code  fault.Code
		param string
		cause error
	}{
		"another member":   {strings.NewReader(`{"betas":["` + strings.Repeat("x", 10<<10) + `"],"requests":[]}`), fault.CodeInvalidValue, "betas", nil},
		"space":            {strings.NewReader(`{` + strings.Repeat(" ", 10<<10)), fault.CodeInvalidValue, "", nil},
		"cut":              {strings.NewReader(`{"requests":[{`), fault.CodeInvalidJSON, "", nil},
		"gone":             {io.MultiReader(strings.NewReader(`{"requests":[{`), iotest.ErrReader(gone)), fault.CodeInvalidJSON, "", gone},
		"gone at the end":  {io.MultiReader(strings.NewReader(`{"requests":[{"a":1}]`), iotest.ErrReader(gone)), fault.CodeInvalidJSON, "", gone},
		"nothing for long": {io.MultiReader(strings.NewReader(`{"requests":`), iotest.ErrReader(os.ErrDeadlineExceeded)), fault.CodeInvalidJSON, "", os.ErrDeadlineExceeded},
	} {
		_, _, err := readRequests(c.from, 4<<10, func(int64) {})
		if !fault.Is(err, c.code) || fault.Public(err).Param() != c.param || c.cause != nil && !errors.Is(err, c.cause) || c.cause == nil && errors.Unwrap(err) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResultsWaitForRoom: a long result waits until there is room for it, and not for ever; one that is longer than all that its reader may hold comes when he
// holds nothing else.
func TestResultsWaitForRoom(t *testing.T) {
	const all = 8 << 20
	synctest.Test(t, func(t *testing.T) {
		a, as := &API{bodies: inflight.New(inflight.Config{All: all, PerTenant: all, PerCaller: all})}, inflight.Caller{Tenant: "t", ID: "k"}
		_ = a.bodies.Acquire(as, all)
		begun := time.Now()
		time.AfterFunc(resultWait/2, func() { a.bodies.Release(as, all-resultMemory) })
		release, err := a.roomForResult(t.Context(), as, 64<<20)
		if err != nil || time.Since(begun) < resultWait/2 || a.bodies.Held() != all {
			t.Fatalf("after %s, %d held: %v", time.Since(begun), a.bodies.Held(), err)
		}
		if short, err := a.roomForResult(t.Context(), as, resultMemory); err != nil {
			t.Errorf("a short one: %v", err)
		} else {
			short()
		}
		if _, err := a.roomForResult(t.Context(), as, resultMemory+1); !fault.Is(err, fault.CodeBytesInFlight) {
			t.Errorf("%v", err)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, err := a.roomForResult(left, as, resultMemory+1); !errors.Is(err, context.Canceled) {
			t.Errorf("the reader has left: %v", err)
		}
		if release(); a.bodies.Held() != resultMemory {
			t.Errorf("%d held", a.bodies.Held())
		}
	})
}

// slowConn notes what is written until the next deadline.
type slowConn struct {
	*httptest.ResponseRecorder

	since, most int
}

func (s *slowConn) SetWriteDeadline(time.Time) error { s.since = 0; return nil }

func (s *slowConn) Write(p []byte) (int, error) {
	s.since += len(p)
	s.most = max(s.most, s.since)
	return s.ResponseRecorder.Write(p)
}

// TestPatientWriter: each piece of a long line has its own time.
func TestPatientWriter(t *testing.T) {
	k := newKit(t, Config{}, nil)
	conn := &slowConn{ResponseRecorder: httptest.NewRecorder()}
	ctx, _ := gin.CreateTestContext(conn)
	text := strings.Repeat("0123456789", 10_000)
	n, err := (&patientWriter{k.api, ctx, func() {}}).Write([]byte(text))
	if n != len(text) || err != nil || conn.Body.String() != text || conn.most > writeAtOnce {
		t.Errorf("%d bytes, %d at once, %v", n, conn.most, err)
	}
}

// TestMessageBatchShown: each state in Anthropic's words; the counts move when a batch has ended.
func TestMessageBatchShown(t *testing.T) {
	begun := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	k := newKit(t, Config{}, nil)
	base := batch.Batch{ID: "msgbatch_1", Created: begun, Expires: begun.Add(batch.Window), Total: 9}
	ended := base
	ended.EndedAt, ended.ResultsGone, ended.Completed, ended.Failed, ended.Expired, ended.Cancelled = begun.Add(time.Hour), begun.Add(48*time.Hour), 3, 6, 2, 3
	ended.OutputFile = "file-1"
	lost := base
	lost.State, lost.EndedAt, lost.Completed, lost.Failed, lost.Cancelled = batch.Failed, begun.Add(time.Hour), 3, 2, 1
	with := func(b batch.Batch, state string) batch.Batch { b.State = state; return b }
	const head = `{"id":"msgbatch_1","type":"message_batch","processing_status":`
	const open = `,"request_counts":{"processing":9,"succeeded":0,"errored":0,"canceled":0,"expired":0},"ended_at":null,"created_at":"2026-11-01T08:00:00Z","expires_at":"2026-11-02T08:00:00Z","archived_at":null,"cancel_initiated_at":null,"results_url":null}`
	const over = `,"request_counts":{"processing":0,"succeeded":3,"errored":1,"canceled":3,"expired":2},"ended_at":"2026-11-01T09:00:00Z","created_at":"2026-11-01T08:00:00Z","expires_at":"2026-11-02T08:00:00Z",`
	for name, c := range map[string]struct {
		b    batch.Batch
		now  time.Time
		want string
	}{
		"at work":    {with(base, batch.InProgress), begun, head + `"in_progress"` + open},
		"finalizing": {with(base, batch.Finalizing), begun, head + `"in_progress"` + open},
		"canceling":  {with(base, batch.Cancelling), begun, head + `"canceling"` + open},
		"ended":      {with(ended, batch.Cancelled), begun, head + `"ended"` + over + `"archived_at":null,"cancel_initiated_at":null,"results_url":"/v1/messages/batches/msgbatch_1/results"}`},
		"archived":   {with(ended, batch.Completed), begun.Add(48 * time.Hour), head + `"ended"` + over + `"archived_at":"2026-11-03T08:00:00Z","cancel_initiated_at":null,"results_url":null}`},
		"lost": {lost, begun, head + `"ended","request_counts":{"processing":0,"succeeded":0,"errored":9,"canceled":0,"expired":0},"ended_at":"2026-11-01T09:00:00Z","created_at":"2026-11-01T08:00:00Z","expires_at":"2026-11-02T08:00:00Z",` +
			`"archived_at":null,"cancel_initiated_at":null,"results_url":null}`},
	} {
		k.api.now = func() time.Time { return c.now }
		ctx, _ := gin.CreateTestContext(httptest.NewRecorder())
		ctx.Request = httptest.NewRequest(http.MethodGet, "/v1/messages/batches", http.NoBody)
		if got, err := encode(k.api.wireMessageBatchOf(ctx, c.b)); err != nil || string(got) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s, %v", name, got, c.want, err)
		}
	}
}

// TestMessageResultShown: each kind of outcome in Anthropic's words.
func TestMessageResultShown(t *testing.T) {
	for want, o := range map[string]batch.Outcome{
		`{"custom_id":"a","result":{"type":"succeeded","message":{"text":"<b>"}}}`: {CustomID: "a", State: batch.Completed, Answer: []byte(`{"text":"<b>"}`)},
		`{"custom_id":"b","result":{"type":"errored","error":{"type":"error"}}}`:   {CustomID: "b", State: batch.Failed, Answer: []byte(`{"type":"error"}`)},
		`{"custom_id":"c","result":{"type":"canceled"}}`:                           {CustomID: "c", State: batch.Cancelled, Code: "batch_cancelled", Message: "x"},
		`{"custom_id":"d","result":{"type":"expired"}}`:                            {CustomID: "d", State: batch.Expired, Code: "batch_expired", Message: "x"},
		`{"custom_id":"e","result":{"type":"errored","error":{"type":"error","error":{"type":"authentication_error","message":"The key is gone.","code":"expired_api_key"},"request_id":"r1"}}}`: {
			CustomID: "e", State: batch.Failed, Code: "expired_api_key", Message: "The key is gone.",
		},
		`{"custom_id":"f","result":{"type":"errored","error":{"type":"error","error":{"type":"api_error","message":"m","code":"of_tomorrow"},"request_id":"r1"}}}`: {
			CustomID: "f", State: batch.Failed, Code: "of_tomorrow", Message: "m",
		},
	} {
		if got, err := messageResult(o, &gateway.Call{RequestID: "r1"}); err != nil || string(got) != want+"\n" {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
