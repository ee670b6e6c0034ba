package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

const (
	// uploadMemory is what the memory of one upload counts as, whatever its size: chunks, their ciphertexts and buffers.
	uploadMemory = 1 << 20
	// uploadExtra is what a form may have beside the content of its file.
	uploadExtra = 64 << 10
	// uploadPause is how long nothing may come of an upload.
	uploadPause = 30 * time.Second
	// maxFormField bounds the value of a field beside the file.
	maxFormField = 256
	// maxFileName bounds a name, in bytes.
	maxFileName = 512
	// maxFilePage bounds the files of one answer. Whoever asks for more gets so many, and has_more.
	maxFilePage = 1000
	// The life that a caller can give a file, in seconds.
	minFileLife, maxFileLife = 3600, 30 * 24 * 3600
)

// wireFile is a file in the dialect.
type wireFile struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"` // deprecated by those who made it, and still read
}

func wireFileOf(f files.File) wireFile {
	out := wireFile{
		ID: f.ID, Object: "file", Bytes: f.Bytes, CreatedAt: f.Created.Unix(), Filename: f.Name, Purpose: f.Purpose, Status: "processed",
	}
	if !f.Expires.IsZero() {
		at := f.Expires.Unix()
		out.ExpiresAt = &at
	}
	return out
}

// storeFile answers POST /v1/files. The content goes from the connection to the store in pieces; it is a file once the whole form was understood.
func (a *API) storeFile(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	form, err := a.form(c)
	if err != nil {
		inflight.HangUp(c.Writer, c.Request)
		return err
	}
	as := inflight.Caller{Tenant: who.Tenant, ID: who.ID}
	if err := a.bodies.Acquire(as, uploadMemory); err != nil {
		inflight.HangUp(c.Writer, c.Request)
		return err
	}
	defer a.bodies.Release(as, uploadMemory)
	var stored files.File
	call.Resource = files.NewID()
	err = a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		stored, err = a.receive(ctx, form, files.OwnerOf(who), call.Resource)
		return err
	})
	if err != nil {
		inflight.HangUp(c.Writer, c.Request)
		return err
	}
	a.writeJSON(c, http.StatusOK, wireFileOf(stored))
	return nil
}

// form begins to read a form, bounded in length and in the pauses of its sender.
func (a *API) form(c *gin.Context) (*multipart.Reader, error) {
	kind, params, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, fault.New(fault.CodeUnsupported, "Content-Type", fault.Say("httpapi.multipart")).WithParam("Content-Type")
	}
	limit := a.files.Limits().MaxFileBytes
	if c.Request.ContentLength > limit+uploadExtra {
		return nil, fault.New(fault.CodeFileTooLarge, limit)
	}
	body := http.MaxBytesReader(c.Writer, c.Request.Body, limit+uploadExtra)
	return multipart.NewReader(&patientReader{body, http.NewResponseController(c.Writer), a.now}, params["boundary"]), nil
}

// patientReader lets a request take as long as it takes while something comes.
type patientReader struct {
	io.Reader
	conn *http.ResponseController
	now  func() time.Time
}

func (r *patientReader) Read(p []byte) (int, error) {
	_ = r.conn.SetReadDeadline(r.now().Add(uploadPause)) // a writer without deadlines, as in tests, is bounded by its server
	return r.Reader.Read(p)
}

// fileForm is what a form says.
type fileForm struct {
	upload        *files.Upload
	name, purpose string
	anchor, life  string
}

// receive stores the file of a form.
func (a *API) receive(ctx context.Context, form *multipart.Reader, owner files.Owner, id string) (files.File, error) {
	var f fileForm
	defer func() {
		if f.upload != nil {
			f.upload.Abort(ctx)
		}
	}()
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = a.formPart(ctx, part, owner, &f)
		}
		if err != nil {
			return files.File{}, a.brokenForm(err)
		}
	}
	life, err := f.check()
	if err != nil {
		return files.File{}, err
	}
	return f.upload.Commit(files.NewFile{ID: id, Name: f.name, Purpose: f.purpose, Life: life})
}

// brokenForm says what is wrong with a form that cannot be read.
func (a *API) brokenForm(err error) error {
	var coded *fault.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &tooLarge):
		return fault.New(fault.CodeFileTooLarge, a.files.Limits().MaxFileBytes)
	default:
		return fault.Wrap(err, fault.CodeInvalidValue, "file", fault.Say("httpapi.broken_form")).WithParam("file")
	}
}

// formPart takes the next part of a form. The fields may come before the file or behind it.
func (a *API) formPart(ctx context.Context, part *multipart.Part, owner files.Owner, f *fileForm) (err error) {
	name := part.FormName()
	if name == "file" {
		if f.upload != nil {
			return fault.New(fault.CodeInvalidValue, "file", fault.Say("httpapi.one_file")).WithParam("file")
		}
		if f.name = part.FileName(); f.name == "" || len(f.name) > maxFileName {
			return fault.New(fault.CodeInvalidValue, "file", fault.Say("httpapi.file_name", maxFileName)).WithParam("file")
		}
		if f.upload, err = a.files.Begin(ctx, owner); err != nil {
			return err
		}
		_, err = io.Copy(f.upload, part)
		return err
	}
	field := map[string]*string{"purpose": &f.purpose, "expires_after[anchor]": &f.anchor, "expires_after[seconds]": &f.life}[name]
	if field == nil {
		return fault.New(fault.CodeUnsupported, truncate(name), fault.Say("httpapi.file_fields")).WithParam(truncate(name))
	}
	raw, err := io.ReadAll(io.LimitReader(part, maxFormField+1))
	if err != nil {
		return err
	}
	if len(raw) > maxFormField {
		return fault.New(fault.CodeInvalidValue, name, fault.Say("value.bytes_at_most", maxFormField)).WithParam(name)
	}
	*field = string(raw)
	return nil
}

// check refuses a form that lacks something, or asks for what there is not. It returns the life of the file.
func (f *fileForm) check() (time.Duration, error) {
	if f.upload == nil {
		return 0, fault.New(fault.CodeMissing, "file").WithParam("file")
	}
	switch f.purpose {
	case "":
		return 0, fault.New(fault.CodeMissing, "purpose").WithParam("purpose")
	case files.PurposeBatch, files.PurposeUserData:
	default:
		return 0, fault.New(fault.CodeInvalidValue, "purpose", fault.Say("value.one_of", files.PurposeBatch+", "+files.PurposeUserData)).WithParam("purpose")
	}
	if f.anchor == "" && f.life == "" {
		return 0, nil
	}
	return fileLife(f.anchor, f.life, "expires_after")
}

// fileLife decodes after which time a file goes.
func fileLife(anchor, seconds, field string) (time.Duration, error) {
	if anchor != "created_at" {
		return 0, fault.New(fault.CodeInvalidValue, field+".anchor", fault.Say("value.one_of", "created_at")).WithParam(field + ".anchor")
	}
	n, err := strconv.Atoi(seconds)
	if err != nil || n < minFileLife || n > maxFileLife {
		return 0, fault.New(fault.CodeInvalidValue, field+".seconds", fault.Say("value.whole_between", minFileLife, maxFileLife)).WithParam(field + ".seconds")
	}
	return time.Duration(n) * time.Second, nil
}

// wireDeleted says that something is gone, in the dialect.
type wireDeleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// wirePage is a page of a list in the dialect.
type wirePage[T any] struct {
	Object  string  `json:"object,omitempty"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

func newPage[T any](items []T, more bool, id func(T) string) wirePage[T] {
	p := wirePage[T]{Object: openai.ObjectList, Data: items, HasMore: more}
	if len(items) > 0 {
		first, last := id(items[0]), id(items[len(items)-1])
		p.FirstID, p.LastID = &first, &last
	} else {
		p.Data = []T{}
	}
	return p
}

// pageLimit decodes how many items a page is to have.
func pageLimit(q url.Values, usual, most int) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fault.New(fault.CodeInvalidValue, "limit", fault.Say("value.whole_between", 1, most)).WithParam("limit")
	}
	return n, nil
}

// pageOrder decodes whether the latest items come first, "desc", or last, "asc".
func pageOrder(q url.Values) (string, error) {
	order := cmp.Or(q.Get("order"), "desc")
	if order != "asc" && order != "desc" {
		return "", fault.New(fault.CodeInvalidValue, "order", fault.Say("value.one_of", "asc, desc")).WithParam("order")
	}
	return order, nil
}

// listFiles answers GET /v1/files.
func (a *API) listFiles(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	q := c.Request.URL.Query()
	limit, err := pageLimit(q, maxFilePage, 10_000)
	if err != nil {
		return err
	}
	order, err := pageOrder(q)
	if err != nil {
		return err
	}
	ask := files.Query{Purpose: q.Get("purpose"), After: q.Get("after"), Ascending: order == "asc", Limit: min(limit, maxFilePage)}
	out, more := []wireFile(nil), false
	err = a.pipeline.Look(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		var page []files.File
		if page, more, err = a.files.List(ctx, files.OwnerOf(who), ask); err != nil {
			return err
		}
		for _, f := range page {
			out = append(out, wireFileOf(f))
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, newPage(out, more, func(f wireFile) string { return f.ID }))
	return nil
}

// showFile answers GET /v1/files/{id}.
func (a *API) showFile(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	var f files.File
	err := a.pipeline.Look(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) (err error) {
		f, err = a.files.Get(ctx, files.OwnerOf(who), c.Param("id"))
		return err
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, wireFileOf(f))
	return nil
}

// fileContent answers GET /v1/files/{id}/content.
func (a *API) fileContent(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	return a.sendFile(c, call, func(_ context.Context, who identity.Principal) (files.Owner, string, error) {
		return files.OwnerOf(who), c.Param("id"), nil
	})
}

// batchFile sends a file of a batch, whose route calls it input, output or errors. Whoever made the batch with a key of his own may read it, too.
func (a *API) batchFile(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	return a.sendFile(c, call, func(ctx context.Context, who identity.Principal) (files.Owner, string, error) {
		owner := files.OwnerOf(who)
		b, err := a.batches.Get(ctx, batch.Scope{Owner: owner, Endpoints: append(batch.Endpoints(), batch.MessagesEndpoint), AnyProject: true}, c.Param("id"))
		owner.Project = b.Project
		id := map[string]string{"input": b.InputFile, "output": b.OutputFile, "errors": b.ErrorFile}[c.Param("file")]
		if err == nil && id == "" {
			err = fault.New(fault.CodeNotFound, fault.Say("thing.file"), truncate(c.Param("file")))
		}
		return owner, id, err
	})
}

// sendFile sends the content of a file. What fails once some of it is out ends the connection: nobody may take a part for the whole.
func (a *API) sendFile(c *gin.Context, call *gateway.Call, which func(context.Context, identity.Principal) (files.Owner, string, error)) error {
	call.Resource = truncate(c.Param("id"))
	err := a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		owner, id, err := which(ctx, who)
		if err != nil {
			return err
		}
		f, content, err := a.files.Open(ctx, owner, id)
		if err != nil {
			return err
		}
		head := sync.OnceFunc(func() { // not before there is something: a refusal has other ones
			h := c.Writer.Header()
			h.Set("Content-Type", "application/octet-stream")
			h.Set("Content-Length", strconv.FormatInt(f.Bytes, 10))
			h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
			c.Status(http.StatusOK)
		})
		if _, err = io.Copy(&patientWriter{a, c, head}, content); err == nil {
			head() // of an empty file
		}
		return err
	})
	if err != nil && c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	return err
}

// writeAtOnce is how many bytes a client has to accept until the next deadline.
const writeAtOnce = 32 << 10

// patientWriter lets an answer take as long as it takes while the client accepts something.
type patientWriter struct {
	a    *API
	c    *gin.Context
	head func() // before anything is written
}

func (w *patientWriter) Write(p []byte) (int, error) {
	w.head()
	written := 0
	for len(p) > written {
		w.a.deadline(w.c)
		n, err := w.c.Writer.Write(p[written:min(len(p), written+writeAtOnce)])
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// deleteFile answers DELETE /v1/files/{id}.
func (a *API) deleteFile(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	id := c.Param("id")
	call.Resource = truncate(id)
	err := a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		return a.files.Delete(ctx, files.OwnerOf(who), id)
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, wireDeleted{id, "file", true})
	return nil
}
