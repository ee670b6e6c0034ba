package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
)

// TestValuesAreBounded: a body of any length is read, as long as no value in it is longer than one may be, and of one that is no more than that.
func TestValuesAreBounded(t *testing.T) {
	const most = 4 << 10
	read := func(text string) (values int, taken int64, err error) {
		from := strings.NewReader(text)
		in := &valueReader{from: from, most: most}
		dec := json.NewDecoder(in)
		in.next()
		for err = skip(dec.Token()); err == nil && dec.More(); values++ {
			in.next()
			if err = dec.Decode(new(json.RawMessage)); err != nil {
				break
			}
		}
		return values, from.Size() - int64(from.Len()), err
	}
	short := `"` + strings.Repeat("x", 1000) + `"`
	if n, _, err := read("[" + strings.Repeat(short+",", 999) + short + "]"); n != 1000 || err != nil {
		t.Errorf("%d values, %v", n, err)
	}
	n, taken, err := read("[" + short + `,"` + strings.Repeat("x", 1<<20) + `"]`)
	if n != 1 || !errors.Is(err, errPiece) || taken > 3*most {
		t.Errorf("%d values, %d bytes were taken, %v", n, taken, err)
	}
}

func skip(_ json.Token, err error) error { return err }

// TestMessageBatchShown: each state in Anthropic's words; the counts move when a batch has ended.
func TestMessageBatchShown(t *testing.T) {
	begun := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	k := newKit(t, Config{}, nil)
	base := batch.Batch{ID: "msgbatch_1", Created: begun, Expires: begun.Add(batch.Window), Total: 9}
	ended := base
	ended.EndedAt, ended.ResultsGone, ended.Completed, ended.Failed, ended.Expired, ended.Cancelled = begun.Add(time.Hour), begun.Add(48*time.Hour), 3, 6, 2, 3
	ended.OutputFile = "file-1"
	lost := base
	lost.State, lost.EndedAt = batch.Failed, begun.Add(time.Hour)
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
