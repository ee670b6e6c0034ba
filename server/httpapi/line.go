package httpapi

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// batchLine says in the context of a request that it is a line of a batch, and in whose name. Only [API.Asker] puts it there: nothing that comes over a
// network can.
type batchLine struct {
	request, batch string
	as             *identity.Acting
}

type batchLineKey struct{}

// lineOf returns what a request is of a batch; the zero value for a request of a client.
func lineOf(ctx context.Context) batchLine {
	l, _ := ctx.Value(batchLineKey{}).(batchLine)
	return l
}

// Asker asks lines of batches of the handler of the data plane, as clients do, without a network between.
func (a *API) Asker(handler http.Handler) batch.Ask {
	return func(ctx context.Context, q batch.Request) batch.Response {
		ctx = context.WithValue(ctx, batchLineKey{}, batchLine{q.ID, q.Batch, &q.As})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.Endpoint, bytes.NewReader(q.Body))
		if err != nil {
			return a.cut(q, err)
		}
		r.RemoteAddr = net.JoinHostPort(q.Source, "0")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept-Language", q.Language)
		for name, value := range map[string]string{"X-Sluice-Purpose": q.Purpose, headerDataGrade: q.DataGrade, "X-Sluice-On-Behalf-Of": q.OnBehalfOf} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := &answerWriter{header: http.Header{}}
		err = serve(handler, w, r)
		if w.over {
			err = fault.New(fault.CodeAnswerTooLarge, maxLineAnswer)
		}
		if err != nil {
			return a.cut(q, err)
		}
		return batch.Response{Status: w.status, Header: w.header, Body: w.body.Bytes()}
	}
}

// serve answers a request. The error is that the handler has cut it.
func serve(handler http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		v := recover()
		if v == http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is thrown
			err = http.ErrAbortHandler
		} else if v != nil {
			panic(v)
		}
	}()
	handler.ServeHTTP(w, r)
	return nil
}

// cut is what a line is told whose answer broke off.
func (a *API) cut(q batch.Request, cause error) batch.Response {
	p := fault.Public(cause)
	status, refusal := a.dialects.ofPath(q.Endpoint).refusal(p, acceptLanguage(q.Language), q.ID)
	body, err := encode(refusal)
	if err != nil {
		body = []byte("{}")
	}
	return batch.Response{Status: status, Header: http.Header{}, Body: body}
}

// maxLineAnswer is how many bytes of the answer to a line are kept: all lines that are asked at one time hold theirs in memory.
const maxLineAnswer = 64 << 20

// answerWriter keeps an answer in memory, up to maxLineAnswer. It takes deadlines and needs none.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
	over   bool // more was written than is kept
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.over = w.over || w.body.Len()+len(p) > maxLineAnswer; w.over {
		w.body = bytes.Buffer{}
		return 0, fault.New(fault.CodeAnswerTooLarge, maxLineAnswer)
	}
	return w.body.Write(p)
}

func (w *answerWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *answerWriter) SetWriteDeadline(time.Time) error { return nil }
