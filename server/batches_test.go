package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/adminapi"
)

// storedFile is a file as the business API shows it.
type storedFile struct {
	ID, Object, Filename, Purpose string
	Bytes                         int64
	CreatedAt                     int64  `json:"created_at"`
	ExpiresAt                     *int64 `json:"expires_at"`
}

// shownBatch is a batch as the business API shows it.
type shownBatch struct {
	ID, Object, Status string
	Output             string                                   `json:"output_file_id"`
	Error              string                                   `json:"error_file_id"`
	Counts             struct{ Total, Completed, Failed int64 } `json:"request_counts"`
	Metadata           map[string]string
	ExpiresAt          int64 `json:"expires_at"`
	CompletedAt        int64 `json:"completed_at"`
	Errors             struct {
		Data []struct {
			Code, Message, Param string
			Line                 int64
		}
	}
}

// lineResult is a line of a file of results.
type lineResult struct {
	ID       string
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int    `json:"status_code"`
		RequestID  string `json:"request_id"`
		Body       json.RawMessage
	}
	Error *struct{ Code, Message string }
}

// upload stores a file. Fields come in pairs, before or behind the file.
func (in *installation) upload(key, name, content string, fileFirst bool, fields ...string) reply {
	in.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file := func() {
		w, err := form.CreateFormFile("file", name)
		if err != nil {
			in.t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	if fileFirst {
		file()
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if err := form.WriteField(fields[i], fields[i+1]); err != nil {
			in.t.Fatal(err)
		}
	}
	if !fileFirst {
		file()
	}
	if err := form.Close(); err != nil {
		in.t.Fatal(err)
	}
	return in.send(http.MethodPost, "/v1/files", key, body.String(), "Content-Type", form.FormDataContentType())
}

func (in *installation) mustUpload(key, content string) storedFile {
	in.t.Helper()
	var f storedFile
	in.upload(key, "lines.jsonl", content, false, "purpose", "batch").decode(in.t, &f)
	return f
}

func (in *installation) makeBatch(key, file, endpoint string) shownBatch {
	in.t.Helper()
	var b shownBatch
	in.send(http.MethodPost, "/v1/batches", key, map[string]any{
		"input_file_id": file, "endpoint": endpoint, "completion_window": "24h", "metadata": map[string]string{"night": "one"},
	}).decode(in.t, &b)
	return b
}

// untilBatch waits until a batch has one of the states.
func (in *installation) untilBatch(key, id string, states ...string) (b shownBatch) {
	in.t.Helper()
	eventually(in.t, "batch "+id+" to be "+strings.Join(states, " or "), func() bool {
		b = shownBatch{}
		in.send(http.MethodGet, "/v1/batches/"+id, key, nil).decode(in.t, &b)
		for _, s := range states {
			if b.Status == s {
				return true
			}
		}
		if b.Status == "failed" {
			in.t.Fatalf("%+v", b)
		}
		return false
	})
	return b
}

// results reads a file of results by custom id; no line may come twice.
func (in *installation) results(key, file string) map[string]lineResult {
	in.t.Helper()
	out := map[string]lineResult{}
	if file == "" {
		return out
	}
	r := in.send(http.MethodGet, "/v1/files/"+file+"/content", key, nil)
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	for text := range strings.Lines(string(r.body)) {
		var l lineResult
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			in.t.Fatalf("%q: %v", text, err)
		}
		if _, twice := out[l.CustomID]; twice {
			in.t.Errorf("%s has two results", l.CustomID)
		}
		out[l.CustomID] = l
	}
	return out
}

// chatLine is a line that asks a chat.
func chatLine(id, content string) string {
	raw, err := json.Marshal(map[string]any{
		"custom_id": id, "method": "POST", "url": "/v1/chat/completions",
		"body": map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": content}}},
	})
	if err != nil {
		panic(err)
	}
	return string(raw) + "\n"
}

// TestFilesAndBatches drives both over HTTP on one server.
func TestFilesAndBatches(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	waiting := make(chan struct{}, 100)
	in := start(t, setup{
		plan: func(_ int, req *engine.Request) enginetest.Plan {
			last := req.Messages[len(req.Messages)-1].Content
			if strings.HasPrefix(last, "wait") {
				waiting <- struct{}{}
				<-gate
			}
			return enginetest.Plan{Texts: []string{"You said: " + last}}
		},
		extra: "batches: {concurrent_per_batch: 2, max_open: 3, files: {max_file_bytes: 20000, max_tenant_bytes: 45000, max_tenant_files: 30}}\nlimits: {key: {requests_per_minute: 0, concurrent: 0}}\n",
	})
	t.Cleanup(func() { // a test that has failed leaves nobody waiting
		for {
			select {
			case gate <- struct{}{}:
			case <-time.After(100 * time.Millisecond):
				return
			}
		}
	})
	key := in.started.Welcome.APIKey.Reveal()
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	foreign := in.keyOf("bank", "foreign")
	t.Run("files", func(t *testing.T) { in := in.in(t); in.testFiles(key, foreign) })
	t.Run("batch", func(t *testing.T) { in := in.in(t); in.testBatch(key, foreign) })
	t.Run("messages", func(t *testing.T) { in := in.in(t); in.testMessageBatch(key, foreign, gate, waiting) })
	t.Run("lost rights", func(t *testing.T) { in := in.in(t); in.testBatchLostRights(gate, waiting) })
	t.Run("of a person", func(t *testing.T) { in := in.in(t); in.testBatchOfAPerson(gate, waiting) })
	t.Run("endings", func(t *testing.T) { in := in.in(t); in.testBatchEndings(key, gate, waiting) })
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the log does not verify: %+v", v.Report.Problems)
	}
}

// in is the installation for a sub-test.
func (in *installation) in(t *testing.T) *installation {
	out := *in
	out.t = t
	return &out
}

// keyOf makes a key of another tenant.
func (in *installation) keyOf(tenant, name string) string {
	in.t.Helper()
	var k struct{ Secret string }
	in.admin(http.MethodPost, "/keys", map[string]any{"tenant": tenant, "name": name}, &k)
	return k.Secret
}

func (in *installation) testFiles(key, foreign string) {
	t := in.t
	var f storedFile
	in.upload(key, "notes.txt", "some notes", true, "purpose", "user_data", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600").decode(t, &f)
	if f.Object != "file" || f.Bytes != 10 || f.Filename != "notes.txt" || f.Purpose != "user_data" || f.ExpiresAt == nil || *f.ExpiresAt != f.CreatedAt+3600 {
		t.Errorf("%+v", f)
	}
	var page struct {
		Data    []storedFile
		HasMore bool   `json:"has_more"`
		LastID  string `json:"last_id"`
	}
	second := in.mustUpload(key, "x")
	in.send(http.MethodGet, "/v1/files?limit=1&order=asc", key, nil).decode(t, &page)
	if len(page.Data) != 1 || page.Data[0].ID != f.ID || !page.HasMore || page.LastID != f.ID {
		t.Errorf("%+v", page)
	}
	in.send(http.MethodGet, "/v1/files?purpose=batch&after="+second.ID, key, nil).decode(t, &page)
	if len(page.Data) != 0 || page.HasMore {
		t.Errorf("%+v", page)
	}
	if r := in.send(http.MethodGet, "/v1/files/"+f.ID+"/content", key, nil); string(r.body) != "some notes" {
		t.Errorf("%d %s", r.status, r.body)
	}
	unknown := in.send(http.MethodGet, "/v1/files/file-"+strings.Repeat("0", 32), foreign, nil)
	for _, path := range []string{"", "/content"} {
		r := in.send(http.MethodGet, "/v1/files/"+f.ID+path, foreign, nil)
		told := strings.ReplaceAll(string(r.body), f.ID, "file-"+strings.Repeat("0", 32))
		if r.status != http.StatusNotFound || told != string(unknown.body) {
			t.Errorf("another tenant is told %d %s, and of what is not there %s", r.status, r.body, unknown.body)
		}
	}
	for name, c := range map[string]struct {
		r      reply
		status int
		code   string
	}{
		"another purpose": {in.upload(key, "a", "x", false, "purpose", "fine-tune"), 400, "invalid_value"},
		"no purpose":      {in.upload(key, "a", "x", false), 400, "missing_required_parameter"},
		"an odd field":    {in.upload(key, "a", "x", false, "purpose", "batch", "colour", "red"), 400, "unsupported_parameter"},
		"too short":       {in.upload(key, "a", "x", false, "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "60"), 400, "invalid_value"},
		"too large":       {in.upload(key, "a", strings.Repeat("x", 20001), false, "purpose", "batch"), 413, "file_too_large"},
		"no form":         {in.send(http.MethodPost, "/v1/files", key, map[string]string{"purpose": "batch"}), 400, "unsupported_parameter"},
		"half a form":     {in.send(http.MethodPost, "/v1/files", key, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc", "Content-Type", "multipart/form-data; boundary=b"), 400, "invalid_value"},
		"a foreign one":   {in.send(http.MethodDelete, "/v1/files/"+f.ID, foreign, nil), 404, "not_found"},
	} {
		if c.r.status != c.status || !strings.Contains(string(c.r.body), `"`+c.code+`"`) {
			t.Errorf("%s: %d %s", name, c.r.status, c.r.body)
		}
	}
	full := in.upload(key, "a", strings.Repeat("a", 19999), false, "purpose", "user_data")
	more := in.upload(key, "b", strings.Repeat("b", 19999), false, "purpose", "user_data")
	if over := in.upload(key, "c", strings.Repeat("c", 9999), false, "purpose", "user_data"); full.status != 200 || more.status != 200 || over.status != 429 || !strings.Contains(string(over.body), "files_full") {
		t.Errorf("%d, %d, then %d %s", full.status, more.status, over.status, over.body)
	}
	for _, r := range []reply{full, more} {
		var f storedFile
		r.decode(t, &f)
		in.send(http.MethodDelete, "/v1/files/"+f.ID, key, nil).decode(t, new(any))
	}
	r := in.send(http.MethodDelete, "/v1/files/"+f.ID, key, nil)
	if !strings.Contains(string(r.body), `"deleted":true`) || in.send(http.MethodGet, "/v1/files/"+f.ID, key, nil).status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
	events := in.records(r.header.Get("X-Request-Id"), 2)
	if events[0].Action != "files.delete" || events[1].Outcome != "ok" || !strings.Contains(string(events[1].raw), f.ID) || strings.Contains(string(events[1].raw), "notes") {
		t.Errorf("%s", events[1].raw)
	}
}

func (in *installation) testBatch(key, foreign string) {
	t := in.t
	const phone = "13913572460"
	var text strings.Builder
	for i := range 20 {
		text.WriteString(chatLine(fmt.Sprintf("q%d", i), fmt.Sprintf("call %s about %d", phone, i)))
	}
	text.WriteString(`{"custom_id":"odd","method":"POST","url":"/v1/chat/completions","body":{"model":"none-such","messages":[{"role":"user","content":"x"}]}}` + "\n")
	text.WriteString(`{"custom_id":"bad","method":"POST","url":"/v1/chat/completions","body":{"model":"scripted","messages":"x"}}`)
	before := in.usage("").Requests
	input := in.mustUpload(key, text.String())
	made := in.makeBatch(key, input.ID, "/v1/chat/completions")
	if made.Object != "batch" || made.Status != "validating" || made.Metadata["night"] != "one" {
		t.Fatalf("%+v", made)
	}
	b := in.untilBatch(key, made.ID, "completed")
	if b.Counts.Total != 22 || b.Counts.Completed != 20 || b.Counts.Failed != 2 || b.CompletedAt == 0 {
		t.Errorf("%+v", b)
	}
	good, bad := in.results(key, b.Output), in.results(key, b.Error)
	if len(good) != 20 || len(bad) != 2 || bad["odd"].Response.StatusCode != 404 || bad["bad"].Response.StatusCode != 400 || !strings.Contains(string(bad["bad"].Response.Body), "invalid_type") {
		t.Fatalf("%d and %+v", len(good), bad)
	}
	answer := good["q7"]
	if !strings.Contains(string(answer.Response.Body), phone+" about 7") || answer.Response.StatusCode != 200 {
		t.Errorf("the answer is not restored: %s", answer.Response.Body)
	}
	asked := 0
	for _, q := range in.scripted.Requests() {
		if said := fmt.Sprintf("%+v", q); strings.Contains(said, " about ") {
			asked++
			if strings.Contains(said, phone) {
				t.Errorf("the engine was given %s", said)
			}
		}
	}
	if asked != 20 {
		t.Errorf("the engine was asked %d times", asked)
	}
	events := in.records(answer.Response.RequestID, 2)
	if raw := string(events[1].raw); len(events) != 2 || events[1].Outcome != "ok" || events[1].Actor.Kind != "key" || !strings.Contains(raw, `"class":"batch"`) || !strings.Contains(raw, `"batch":"`+b.ID+`"`) {
		t.Errorf("%s", raw)
	}
	eventually(t, "20 bills", func() bool { return in.usage("").Requests == before+20 })
	if n := in.usage("").Requests; n != before+20 {
		t.Errorf("%d bills", n-before)
	}
	for _, path := range []string{"/v1/batches/" + b.ID, "/v1/files/" + b.Output, "/v1/files/" + b.Error + "/content"} {
		if r := in.send(http.MethodGet, path, foreign, nil); r.status != http.StatusNotFound {
			t.Errorf("another tenant: %s: %d %s", path, r.status, r.body)
		}
	}
	if r := in.send(http.MethodPost, "/v1/batches", foreign, map[string]any{"input_file_id": input.ID, "endpoint": "/v1/chat/completions", "completion_window": "24h"}); r.status != http.StatusNotFound {
		t.Errorf("a batch of another tenant's file: %d %s", r.status, r.body)
	}
	in.nowhere(phone)
	if strings.Contains(in.logs.String(), phone) {
		t.Error("the log has what a line says")
	}
	wrong := in.makeBatch(key, in.mustUpload(key, chatLine("a", "x")+"nonsense").ID, "/v1/chat/completions")
	eventually(t, "the file to be refused", func() bool {
		in.send(http.MethodGet, "/v1/batches/"+wrong.ID, key, nil, "Accept-Language", "zh").decode(t, &wrong)
		return wrong.Status == "failed"
	})
	if p := wrong.Errors.Data; len(p) != 1 || p[0].Code != "invalid_json_line" || p[0].Line != 2 || !strings.Contains(p[0].Message, "该行") {
		t.Errorf("%+v", p)
	}
	for name, body := range map[string]map[string]any{
		"a week":           {"input_file_id": input.ID, "endpoint": "/v1/chat/completions", "completion_window": "7d"},
		"another endpoint": {"input_file_id": input.ID, "endpoint": "/v1/rerank", "completion_window": "24h"},
		"odd metadata":     {"input_file_id": input.ID, "endpoint": "/v1/chat/completions", "completion_window": "24h", "metadata": map[string]any{"a": 1}},
	} {
		if r := in.send(http.MethodPost, "/v1/batches", key, body); r.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// nowhere looks for a text in every file of the data directory.
func (in *installation) nowhere(text string) {
	in.t.Helper()
	looked := 0
	err := filepath.WalkDir(filepath.Join(in.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		looked += len(raw)
		if bytes.Contains(raw, []byte(text)) {
			in.t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil || looked < 100_000 {
		in.t.Errorf("looked at %d bytes: %v", looked, err)
	}
}

func (in *installation) testBatchEndings(key string, gate, waiting chan struct{}) {
	t := in.t
	var text strings.Builder
	for i := range 12 {
		text.WriteString(chatLine(fmt.Sprintf("w%d", i), fmt.Sprintf("wait %d", i)))
	}
	input := in.mustUpload(key, text.String())
	b := in.makeBatch(key, input.ID, "/v1/chat/completions")
	<-waiting
	<-waiting
	if r := in.send(http.MethodDelete, "/v1/files/"+input.ID, key, nil); r.status != http.StatusConflict {
		t.Errorf("the input of a running batch: %d %s", r.status, r.body)
	}
	var c shownBatch
	in.send(http.MethodPost, "/v1/batches/"+b.ID+"/cancel", key, map[string]any{}).decode(t, &c)
	if c.Status != "cancelling" {
		t.Errorf("%+v", c)
	}
	gate <- struct{}{}
	gate <- struct{}{}
	c = in.untilBatch(key, b.ID, "cancelled")
	good, bad := in.results(key, c.Output), in.results(key, c.Error)
	if len(good) != 2 || len(bad) != 10 || bad["w11"].Error == nil || bad["w11"].Error.Code != "batch_cancelled" {
		t.Errorf("%d and %+v", len(good), bad)
	}

	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline("sqlite:" + filepath.Join(in.dir, "data", "sluice.db"))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	// A content that does not open is refused as anything else is.
	changed := in.mustUpload(key, "changed")
	if err := db.Exec("UPDATE file_chunks SET sealed = zeroblob(99) WHERE blob = (SELECT blob FROM file_files WHERE id = ?)", changed.ID).Error; err != nil {
		t.Fatal(err)
	}
	r := in.send(http.MethodGet, "/v1/files/"+changed.ID+"/content", key, nil)
	if r.status != http.StatusInternalServerError || r.header.Get("Content-Disposition") != "" || !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") || !json.Valid(r.body) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	// A batch whose day is over when it begins.
	if err := db.Exec("CREATE TRIGGER late AFTER INSERT ON batch_batches BEGIN UPDATE batch_batches SET expires_at = created_at WHERE id = NEW.id; END").Error; err != nil {
		t.Fatal(err)
	}
	d := in.makeBatch(key, input.ID, "/v1/chat/completions")
	if err := db.Exec("DROP TRIGGER late").Error; err != nil {
		t.Fatal(err)
	}
	d = in.untilBatch(key, d.ID, "expired")
	if bad := in.results(key, d.Error); d.Output != "" || len(bad) != 12 || bad["w3"].Error == nil || bad["w3"].Error.Code != "batch_expired" || d.Counts.Failed != 12 {
		t.Errorf("%+v, %+v", d, bad)
	}
}

// testBatchOfAPerson: somebody who is signed in has lines asked in his name, without his session, and until his account loses the right.
func (in *installation) testBatchOfAPerson(gate, waiting chan struct{}) {
	t := in.t
	bank := map[string]any{"tenant": "bank"} // whose files have room
	dev, other, auditor := in.newAccount("night.dev", bank, "developer"), in.newAccount("day.dev", bank, "developer"), in.newAccount("night.aud", bank, "auditor")
	form := func(token string) reply {
		var text strings.Builder
		for i := range 4 {
			text.WriteString(chatLine(fmt.Sprint(i), fmt.Sprint("wait ", i)))
		}
		var body bytes.Buffer
		f := multipart.NewWriter(&body)
		_ = f.WriteField("purpose", "batch")
		w, _ := f.CreateFormFile("file", "night.jsonl")
		_, _ = io.WriteString(w, text.String())
		_ = f.Close()
		return in.send(http.MethodPost, "/api/v1/batches/files", token, body.String(), "Content-Type", f.FormDataContentType())
	}
	wantProblem(t, "without a session", form(""), http.StatusUnauthorized, "invalid_session")
	wantProblem(t, "with a cookie alone", in.send(http.MethodPost, "/api/v1/batches", "", map[string]any{"file": "x", "endpoint": "/v1/chat/completions"}, "Cookie", dev.cookie), http.StatusUnauthorized, "invalid_session")
	wantProblem(t, "an auditor", form(auditor.token), http.StatusForbidden, "not_allowed")
	if r := in.send(http.MethodGet, "/v1/batches", dev.token, nil); r.status != http.StatusUnauthorized {
		t.Errorf("a session on the data plane: %d %s", r.status, r.body)
	}
	var file adminapi.BatchFile
	form(dev.token).decode(t, &file)
	start := func(token string) reply {
		return in.send(http.MethodPost, "/api/v1/batches", token, map[string]any{"file": file.Id, "endpoint": "/v1/chat/completions"})
	}
	wantProblem(t, "somebody else's file", start(other.token), http.StatusNotFound, "not_found")
	get := func(id string) (b adminapi.BatchDetail) {
		in.send(http.MethodGet, "/api/v1/batches/"+id, dev.token, nil).decode(t, &b)
		return b
	}
	until := func(id, state string) (b adminapi.BatchDetail) {
		eventually(t, "batch "+id+" to be "+state, func() bool { b = get(id); return b.State == state })
		return b
	}

	var b adminapi.Batch
	start(dev.token).decode(t, &b)
	<-waiting
	<-waiting
	in.send(http.MethodDelete, "/api/v1/session", "", nil, "Cookie", dev.cookie) // the sign-in is over, the batch is not
	dev = account{id: dev.id, token: in.enter("night.dev", longPassword).token}
	wantProblem(t, "somebody else's batch", in.send(http.MethodGet, "/api/v1/batches/"+b.Id, other.token, nil), http.StatusNotFound, "not_found")
	wantProblem(t, "somebody else's cancel", in.send(http.MethodPost, "/api/v1/batches/"+b.Id+"/cancel", other.token, nil), http.StatusNotFound, "not_found")
	for range 4 {
		gate <- struct{}{}
	}
	<-waiting
	<-waiting
	done := until(b.Id, "completed")
	if done.Completed != 4 || done.Failed != 0 || deref(done.Model) != "scripted" || done.Class != "batch" || !done.Output || done.Errors || done.EndedAt == nil {
		t.Errorf("%+v", done)
	}
	eventually(t, "the cost of the batch", func() bool { return get(b.Id).Cost != nil && *get(b.Id).Cost > 0 })
	answers := in.send(http.MethodGet, "/api/v1/batches/"+b.Id+"/files/output", dev.token, nil)
	if answers.status != http.StatusOK || strings.Count(string(answers.body), "\n") != 4 || !strings.Contains(string(answers.body), "You said: wait 3") {
		t.Errorf("%d %s", answers.status, answers.body)
	}
	wantProblem(t, "somebody else's answers", in.send(http.MethodGet, "/api/v1/batches/"+b.Id+"/files/output", other.token, nil), http.StatusNotFound, "not_found")
	wantProblem(t, "a file that there is not", in.send(http.MethodGet, "/api/v1/batches/"+b.Id+"/files/errors", dev.token, nil), http.StatusNotFound, "not_found")
	eventually(t, "the records of a line", func() bool {
		got := string(in.send(http.MethodGet, "/api/v1/audit/records?request="+b.Id+".1", auditor.token, nil).body)
		return strings.Count(got, `"id":"`+dev.id+`"`) >= 2 && strings.Contains(got, `"kind":"user"`)
	})

	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline("sqlite:" + filepath.Join(in.dir, "data", "sluice.db"))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	for code, take := range map[string]func(){
		"not_allowed": func() {
			in.admin(http.MethodPatch, "/users/"+dev.id+"?tenant=bank", map[string]any{"roles": []string{"auditor"}}, new(any))
		},
		"invalid_session": func() { in.admin(http.MethodPost, "/users/"+dev.id+"/disable?tenant=bank", nil, new(any)) },
	} {
		start(dev.token).decode(t, &b)
		<-waiting
		<-waiting
		take()
		gate <- struct{}{}
		gate <- struct{}{}
		give := map[string]func(){
			"not_allowed": func() {
				in.admin(http.MethodPatch, "/users/"+dev.id+"?tenant=bank", map[string]any{"roles": []string{"developer"}}, new(any))
			},
			"invalid_session": func() { in.admin(http.MethodPost, "/users/"+dev.id+"/enable?tenant=bank", nil, new(any)) },
		}[code]
		eventually(t, "the end of a batch that nobody may look at", func() bool {
			var ended int64
			return db.Raw("SELECT ended_at FROM batch_batches WHERE id = ?", b.Id).Scan(&ended).Error == nil && ended > 0
		})
		give()
		dev.token = in.enter("night.dev", longPassword).token
		got := get(b.Id)
		if got.Completed != 2 || got.Failed != 2 || len(got.Failures) != 2 || got.Failures[0].Code != code || !got.Errors {
			t.Errorf("%s: %+v", code, got)
		}
	}
	var page adminapi.BatchPage
	in.send(http.MethodGet, "/api/v1/batches?limit=2", dev.token, nil).decode(t, &page)
	if len(page.Items) != 2 || page.Next == nil || page.Items[0].Id != b.Id {
		t.Errorf("%+v", page)
	}
	last := start(dev.token)
	if last.status != http.StatusCreated {
		t.Fatalf("%d %s", last.status, last.body)
	}
	last.decode(t, &b)
	for range 2 {
		select {
		case <-waiting:
		case <-time.After(time.Minute):
			t.Fatalf("nothing is asked: %+v", get(b.Id))
		}
	}
	in.send(http.MethodPost, "/api/v1/batches/"+b.Id+"/cancel", dev.token, nil).decode(t, &b)
	gate <- struct{}{}
	gate <- struct{}{}
	if got := until(b.Id, "cancelled"); got.Completed != 2 || got.Failed != 2 || got.Failures[0].Code != "batch_cancelled" || got.Failures[0].Status != nil {
		t.Errorf("%+v", got)
	}
}

func (in *installation) testBatchLostRights(gate, waiting chan struct{}) {
	t := in.t
	lost := in.newKey("night shift")
	var text strings.Builder
	for i := range 5 {
		text.WriteString(chatLine(fmt.Sprint(i), fmt.Sprint("wait ", i)))
	}
	input := in.mustUpload(lost.secret, text.String())
	// Nobody can pretend to be a line of somebody's batch: names that might be taken for it change nothing.
	r := in.send(http.MethodPost, "/v1/chat/completions", "", map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hi"}}},
		"X-Sluice-Batch", "batch_1", "X-Sluice-Acting", lost.id, "X-Request-Id", "batch_1.1")
	if r.status != http.StatusUnauthorized || r.header.Get("X-Request-Id") == "batch_1.1" {
		t.Errorf("%d, request %s", r.status, r.header.Get("X-Request-Id"))
	}
	other := in.newKey("day shift")
	if r := in.send(http.MethodGet, "/v1/files/"+input.ID, other.secret, nil); r.status != http.StatusOK {
		t.Errorf("a key of the same project: %d %s", r.status, r.body)
	}
	for _, taken := range []struct {
		action string
		body   any
	}{{"rotate", map[string]any{"overlap_hours": 0}}, {"revoke", nil}} { // the secret, and then the key
		b := in.makeBatch(lost.secret, input.ID, "/v1/chat/completions")
		<-waiting
		<-waiting
		var newer struct{ Secret string }
		in.admin(http.MethodPost, "/keys/"+lost.id+"/"+taken.action, taken.body, &newer)
		gate <- struct{}{}
		gate <- struct{}{}
		b = in.untilBatch(other.secret, b.ID, "completed")
		bad := in.results(other.secret, b.Error)
		if b.Counts.Completed != 2 || len(bad) != 3 || bad["4"].Error == nil || bad["4"].Error.Code != "expired_api_key" {
			t.Errorf("%s: %+v, %+v", taken.action, b, bad)
		}
		lost.secret = newer.Secret
	}
}
