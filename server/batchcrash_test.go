package server_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server"
)

// TestKillDuringBatch kills the server with -9 while it works on a batch, several times over, on both databases. At the end every line has one result and one
// bill, the books agree with the records, and the log verifies.
func TestKillDuringBatch(t *testing.T) { onBoth(t, testKillDuringBatch) }

func testKillDuringBatch(t *testing.T, url string) {
	lines, kills := 300, 2
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		lines, kills = 10_000, 3
	}
	dir := t.TempDir()
	if url == "" {
		url = "sqlite:" + filepath.Join(dir, "a.db")
	}
	var asked atomic.Int64
	marks := make(chan struct{}, 1)
	every := int64(lines / (kills + 1))
	scripted := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan {
		n := asked.Add(1)
		if n%every == 0 {
			select {
			case marks <- struct{}{}:
			default:
			}
		}
		return enginetest.Plan{Texts: []string{strings.Repeat("word ", 2+int(n%5))}} // another answer, of another length, when it is asked again
	})
	upstream := httptest.NewServer(&enginetest.Upstream{Engine: scripted})
	defer upstream.Close()
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf(`data: %s
database: {url: %q, max_connections: 8}
listen: 127.0.0.1:0
console: false
workflows: {enabled: false}
log: {level: warn, format: text}
engines:
  native: {models: []}
  remote: [{name: upstream, base_url: "%s/v1", allow_private: [127.0.0.1/32], models: [{id: scripted}]}]
rag: {embedding_model: ""}
limits: {key: {concurrent: 0, requests_per_minute: 0, tokens_per_minute: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}
batches: {concurrent: 8}
`, filepath.Join(dir, "data"), url, upstream.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var first childReady
	var id string
	open := func(ready childReady) *installation {
		return &installation{t: t, started: server.Started{BaseURL: ready.BaseURL, Welcome: server.Welcome{
			AdminUser: first.User, AdminPassword: keyring.Secret(first.Password), APIKey: keyring.Secret(first.Key),
		}}}
	}
	for round := range kills {
		child, ready := startChild(t, file)
		if round == 0 {
			first = ready
			in := open(ready)
			var input strings.Builder
			for i := range lines {
				input.WriteString(chatLine(fmt.Sprint("l", i), fmt.Sprint("line ", i)))
			}
			id = in.makeBatch(first.Key, in.mustUpload(first.Key, input.String()).ID, "/v1/chat/completions").ID
		}
		<-marks
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
	}
	_, ready := startChild(t, file)
	in := open(ready)
	b := in.untilBatch(first.Key, id, "completed")
	good := in.results(first.Key, b.Output)
	if b.Counts.Total != int64(lines) || b.Counts.Completed != int64(lines) || b.Error != "" || len(good) != lines {
		t.Fatalf("%d results: %+v", len(good), b)
	}
	repeated := asked.Load() - int64(lines)
	if repeated < 1 {
		t.Errorf("no kill hit a line that was being asked: the test proves nothing")
	}
	billed := map[string]bool{}
	in.eachRecord("stage=outcome&action=chat.completions&outcome=ok", func(e auditEvent, _ json.RawMessage) { billed[e.Request] = true })
	for _, r := range good {
		if !billed[r.Response.RequestID] {
			t.Errorf("%s has no record", r.Response.RequestID)
		}
	}
	eventually(t, "the bills", func() bool { return in.usage("").Requests == int64(lines) })
	if n := in.usage("").Requests; n != int64(lines) {
		t.Errorf("%d lines were billed %d times", lines, n)
	}
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the log does not verify: %+v", v.Report.Problems)
	}
	t.Logf("%d lines, %d kills, %d asked again", lines, kills, repeated)
}
