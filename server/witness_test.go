package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/witness"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// watched is an installation with a witness on another machine: it has the public key of the log, an account, and its own directory.
type watched struct {
	*installation
	w    *witness.Witness
	logs *lockedBuffer
}

func watch(t *testing.T) *watched { return watchOn(t, "") }

// watchOn is watch with the database at a URL; "" is SQLite.
func watchOn(t *testing.T, database string) *watched { return watchSuite(t, database, content.Intl) }

// watchSuite is watchOn with both of them in a suite.
func watchSuite(t *testing.T, database string, suite content.Suite) *watched {
	t.Helper()
	dir := t.TempDir()
	sm2 := suite == content.GM
	key, err := witness.Key(witness.Config{Dir: dir, Name: "w.example", SM2: sm2})
	if err != nil {
		t.Fatal(err)
	}
	in := &watched{installation: start(t, setup{database: database, extra: "audit: {suite: " + string(suite) + ", witnesses: [" + key + "]}\n"}), logs: &lockedBuffer{}}
	token := in.signIn("witness")
	verifier, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		t.Fatal(err)
	}
	in.w, err = witness.Open(witness.Config{
		URL: "http://log.example/api/v1/audit/log", Verifier: verifier, Name: "w.example", Dir: dir, SM2: sm2,
		Token:  func(context.Context, string) (string, error) { return token, nil },
		Client: &http.Client{Transport: moved{in.installation}},
	}, slog.New(slog.NewTextHandler(in.logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.w.Close() })
	return in
}

// moved leads to the server wherever it listens now: each start takes another port.
type moved struct{ in *installation }

func (m moved) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	_, r.URL.Host, _ = strings.Cut(strings.TrimSuffix(m.in.started.BaseURL, "/v1"), "://")
	return http.DefaultTransport.RoundTrip(r)
}

func (in *installation) logKey() string {
	in.t.Helper()
	keys, err := keyring.Open(in.cfg.MasterKeyFile)
	if err != nil {
		in.t.Fatal(err)
	}
	key, err := audit.VerifierKey(in.cfg.Audit.Config, keys)
	if err != nil {
		in.t.Fatal(err)
	}
	return key
}

// pass wants the witness to cosign what the log states now.
func (in *watched) pass() {
	in.t.Helper()
	if err := in.w.Pass(in.t.Context()); err != nil {
		in.t.Fatal(err)
	}
}

// more makes records and waits until a checkpoint covers some of them.
func (in *watched) more() {
	in.t.Helper()
	before := in.sealedSize()
	in.someRequests()
	eventually(in.t, "a larger checkpoint", func() bool { return in.sealedSize() > before })
}

// again starts the stopped server on what lies in its directory now.
func (in *watched) again() {
	in.t.Helper()
	welcome := in.started.Welcome
	in.run(in.cfg)
	in.started.Welcome = welcome
}

// copyTree copies a directory as a backup does.
func copyTree(t *testing.T, to, from string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestWitness: a witness follows a running server; its cosignature shows; its looking leaves no record that would make the log grow.
func TestWitness(t *testing.T) {
	t.Parallel()
	in := watch(t)
	in.someRequests()
	in.pass()
	known, err := checkpoint.NewWitnesses(in.w.Key())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		in.pass()
	}
	r := in.send(http.MethodGet, "/api/v1/audit/log/checkpoint", in.session(), nil)
	_, by, err := verifier.OpenCosigned(string(r.body), known)
	if err != nil || len(by) != 1 || by[0].Witness != "w.example" {
		t.Fatalf("%d %s: cosigned by %v, %v", r.status, r.body, by, err)
	}
	for range 2 {
		size := in.w.State().Size
		in.more()
		in.pass()
		if in.w.State().Size <= size {
			t.Error("what came after is not cosigned")
		}
		in.restart()
	}
	for _, action := range []string{"getLogCheckpoint", "getLogTile", "addLogCosignature"} {
		var page struct{ Items []any }
		in.admin(http.MethodGet, "/audit/records?action=admin."+action, nil, &page)
		if len(page.Items) != 0 {
			t.Errorf("%s leaves records: the log grows because it is looked at", action)
		}
	}
	if r := check(t, in.cfg); !r.OK {
		t.Errorf("%+v", r)
	}
}

// TestWitnessObjectsToYesterdaysCopy: the whole machine is set back to an earlier state, database, write-ahead log and checkpoint files.
// Nothing on it knows of the records that are gone; the witness does, at once and for good.
func TestWitnessObjectsToYesterdaysCopy(t *testing.T) { onBoth(t, testYesterdaysCopy) }

func testYesterdaysCopy(t *testing.T, url string) {
	in := watchOn(t, url)
	in.someRequests()
	in.pass()
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	yesterday := filepath.Join(t.TempDir(), "backup")
	copyTree(t, yesterday, in.cfg.Data)
	setBack := in.backup(url)
	in.again()
	in.more()
	in.pass()
	cosigned := in.w.State()
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}

	copyTree(t, in.cfg.Data, yesterday)
	setBack()
	in.again()
	if r := check(t, in.cfg); !r.OK {
		t.Fatalf("the copy is whole, so this proves nothing: %+v", r)
	}
	object := func(kind string) {
		t.Helper()
		err := in.w.Pass(t.Context())
		if !errors.Is(err, witness.ErrAlarm) || !strings.Contains(err.Error(), kind) {
			t.Errorf("want the alarm %s, got %v", kind, err)
		}
		if s := in.w.State(); s.OK || len(s.Alarms) == 0 || s.Size != cosigned.Size || s.Root != cosigned.Root {
			t.Errorf("%+v", s)
		}
	}
	object("rollback")
	// New records take the places of those that are gone.
	for in.sealedSize() <= cosigned.Size {
		in.more()
	}
	object("history")
	if !strings.Contains(in.logs.String(), "ALARM") {
		t.Errorf("it is not said aloud: %s", in.logs)
	}
}

// TestWitnessObjectsToYesterdaysDatabase: only the database is set back. The server finds out too, and the witness does not depend on it.
func TestWitnessObjectsToYesterdaysDatabase(t *testing.T) { onBoth(t, testYesterdaysDatabase) }

func testYesterdaysDatabase(t *testing.T, url string) {
	in := watchOn(t, url)
	in.someRequests()
	in.pass()
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	setBack := in.backup(url)
	in.again()
	in.more()
	in.pass()
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	setBack()
	in.again()
	if err := in.w.Pass(t.Context()); !errors.Is(err, witness.ErrAlarm) || !strings.Contains(err.Error(), "rollback") {
		t.Errorf("want an alarm, got %v", err)
	}
	if r := check(t, in.cfg); r.OK {
		t.Error("the checkpoint files beside the database know nothing")
	}
}

// onBoth runs a test on SQLite, whose url is "", and on PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, dbtest.PostgresURL(t))
	})
}

// backup copies the database of the stopped server and returns what sets it back.
func (in *installation) backup(url string) (setBack func()) {
	in.t.Helper()
	if url != "" {
		return dbtest.Backup(in.t, url)
	}
	path := filepath.Join(in.cfg.Data, "sluice.db")
	copied, err := os.ReadFile(path)
	if err != nil {
		in.t.Fatal(err)
	}
	return func() { restore(in.t, path, copied) }
}

// sealedSize is the size of the newest checkpoint.
func (in *installation) sealedSize() int64 {
	in.t.Helper()
	r := in.send(http.MethodGet, "/api/v1/audit/log/checkpoint", in.session(), nil)
	verifier, err := checkpoint.NewVerifier(in.logKey())
	if err != nil {
		in.t.Fatal(err)
	}
	t, err := verifier.Open(string(r.body))
	if err != nil {
		in.t.Fatal(err)
	}
	return t.Size
}
