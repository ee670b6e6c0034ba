package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/testmodel"
)

const quiet = "workflows: {enabled: false}\nconsole: false\n"

// TestStartMistakes: whatever keeps a server from starting is said in one message with its cause and its remedy, ends with 1, and
// leaves the installation as it was.
func TestStartMistakes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, c := range []struct {
		name, config string
		prepare      func(t *testing.T, s *site)
		args         string
		words        []string
		made         bool // the data directory may have been made
	}{
		{"port in use", quiet, nil, "up --listen " + taken.Addr().String(), []string{taken.Addr().String(), "port is in use", "--listen"}, false},
		{"address without port", quiet, nil, "up --listen localhost", []string{"listen", "host:port"}, false},
		{"unknown key", quiet + "audti: {dir: /x}\n", nil, "up", []string{`unknown key "audti.dir"`, `did you mean "audit.dir"?`, "sluice config example"}, false},
		{"unknown variable", quiet, func(_ *testing.T, s *site) { s.env = []string{"SLUICE_LISTN=x"} }, "up", []string{"SLUICE_LISTN", "did you mean SLUICE_LISTEN?"}, false},
		{"wrong type", quiet + "http: {max_body_bytes: lots}\n", nil, "up", []string{"'http.max_body_bytes'", "int64"}, false},
		{"bad values", quiet + "log: {level: loud}\naudit: {segment_bytes: 5}\n", nil, "up", []string{"log.level: must be", "audit.segment_bytes: must lie between"}, false},
		{"no such file", quiet, func(_ *testing.T, s *site) { s.config += ".not" }, "up", []string{"does not exist", "sluice config example >"}, false},
		{"not YAML", "a: [\n", nil, "up", []string{"sluice.yaml", "line"}, false},
		{"TLS file missing", quiet + "tls: {cert_file: /nowhere/c.pem, key_file: /nowhere/k.pem}\n", nil, "up", []string{"tls.cert_file", "/nowhere/c.pem", "no such file"}, false},
		{"half of TLS", quiet + "tls: {cert_file: /nowhere/c.pem}\n", nil, "up", []string{"tls:", "both"}, false},
		{"not a certificate", quiet, func(t *testing.T, s *site) {
			pem := filepath.Join(s.dir, "c.pem")
			writeFile(t, pem, []byte("not a certificate"))
			s.env = []string{"SLUICE_TLS_CERT_FILE=" + pem, "SLUICE_TLS_KEY_FILE=" + pem}
		}, "up", []string{"TLS certificate", "PEM"}, false},
		{"data directory is a file", quiet, func(t *testing.T, s *site) { writeFile(t, s.data, nil) }, "up", []string{"data directory", "--data"}, true},
		{"no engine", "", func(_ *testing.T, s *site) {
			s.write("data: " + s.data + "\nlisten: 127.0.0.1:0\nengines: {native: {models: []}}\nrag: {embedding_model: \"\"}\n" + quiet)
		}, "up", []string{"no engine is configured", "engines.native.models", "engines.remote"}, true},
		{"no Temporal", "console: false\n", func(t *testing.T, _ *site) { t.Setenv("PATH", "/nowhere") }, "up", []string{"Temporal CLI was not found", "sluice pull", "--no-temporal"}, true},
		{"model missing", "", modelConfig("own.gguf", nil), "up", []string{"model m is not at", "own.gguf", "engines.native.models"}, false},
		{"model is no model", "", modelConfig("own.gguf", []byte("<html>not found</html>")), "up", []string{"own.gguf", "GGUF"}, true},
		{"model truncated", "", modelConfig("own.gguf", testmodel.GGUF([]testmodel.Pair{{Key: "general.architecture", Value: "llama"}}, nil)[:40]), "up", []string{"own.gguf", "truncated"}, true},
		{"catalogue model truncated", "", modelConfig("smollm2-135m-instruct-q4_1.gguf", []byte("GGUF")), "up", []string{"missing or incomplete", "sluice pull smollm2-135m-instruct-q4_1"}, false},
		{"master key readable by others", quiet, func(t *testing.T, s *site) {
			writeFile(t, filepath.Join(s.data, "keys", "master.key"), []byte(strings.Repeat("ab", 32)))
			chmod(t, filepath.Join(s.data, "keys", "master.key"), 0o644)
		}, "up", []string{"master.key", "chmod 600"}, true},
		{"master key damaged", quiet, func(t *testing.T, s *site) {
			writeFile(t, filepath.Join(s.data, "keys", "master.key"), []byte("abc"))
		}, "up", []string{"64 hex digits", "backup"}, true},
		{"serve before up", quiet, nil, "serve", []string{"master key", "sluice up"}, false},
		{"database out of reach", quiet, func(_ *testing.T, s *site) {
			s.env = []string{"SLUICE_DATABASE_URL=postgres://sluice:canary@127.0.0.1:1/sluice?connect_timeout=2"}
		}, "up", []string{"database is not available", "127.0.0.1"}, true},
		{"not a database URL", quiet, func(_ *testing.T, s *site) { s.env = []string{"SLUICE_DATABASE_URL=mysql://sluice:canary@h/d"} }, "up", []string{"database.url", "sqlite: or postgres://"}, false},
		{"ready file cannot be written", quiet, nil, "up --ready-file /nowhere/r.json", []string{"ready file", "/nowhere"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, nil, c.config)
			if c.prepare != nil {
				c.prepare(t, s)
			}
			r := s.run(strings.Fields(c.args)...)
			r.wants(t, exitFailed, c.words...)
			if strings.Contains(r.out+r.err, "canary") {
				t.Errorf("a password is shown:\n%s", r.err)
			}
			if _, err := os.Stat(s.data); err == nil && !c.made {
				t.Error("the data directory was made all the same")
			}
		})
	}
}

// modelConfig replaces the engines by one native model whose file has the given content, or is missing if that is nil.
func modelConfig(file string, content []byte) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		s.write("data: " + s.data + "\ndownloads: " + s.dir + "\nlisten: 127.0.0.1:0\n" + quiet +
			"rag: {embedding_model: \"\"}\nengines: {native: {models: [{id: m, path: " + file + "}]}}\n")
		if content != nil {
			writeFile(t, filepath.Join(s.dir, modelstore.Models, file), content)
		}
	}
}

// TestDamagedModel: one flipped byte in the weights is found when the model is verified, when it is pulled from a file, and at
// the start of a server.
func TestDamagedModel(t *testing.T) {
	const name = "smollm2-135m-instruct-q4_1"
	raw, err := os.ReadFile(testmodel.Path(t, testmodel.SmolLM2))
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1000] ^= 1
	s := newSite(t, nil, "")
	modelConfig(testmodel.SmolLM2, raw)(t, s)
	file := filepath.Join(s.dir, modelstore.Models, testmodel.SmolLM2)
	s.run("models", "verify", name).wants(t, exitFindings, "wrong checksum", "damaged or was replaced", "sluice pull "+name)
	s.run("up").wants(t, exitFailed, "model m", "wrong checksum", "sluice pull "+name)

	copied := filepath.Join(t.TempDir(), "copy.gguf")
	if err := os.Rename(file, copied); err != nil {
		t.Fatal(err)
	}
	s.run("pull", name, "--from", "file:"+copied).wants(t, exitFailed, "wrong checksum")
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 0 {
		t.Errorf("the wrong file was kept: %v", left)
	}
}

// TestInUse: a second process on the same data directory is refused, by name of the first, and the first goes on.
func TestInUse(t *testing.T) {
	s := newSite(t, nil, quiet)
	p := s.up()
	for _, command := range []string{"up", "serve"} {
		s.run(command).wants(t, exitFailed, "another process", s.data, "stop that process")
	}
	s.env = p.client()
	s.run("chat", "still there?").wants(t, exitOK, "still there?")
}

// TestDatabaseOfAnotherRelease: an older schema needs a migration, a newer one that no longer serves this binary is refused and
// left alone, and an installation without its master key gets no new one.
func TestDatabaseOfAnotherRelease(t *testing.T) {
	s := newSite(t, nil, quiet)
	if err := s.up().stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.run("migrate", "--check").wants(t, exitOK, "schema version")

	key := filepath.Join(s.data, "keys", "master.key")
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	s.run("up").wants(t, exitFailed, "master key", "is missing", "backup")
	if _, err := os.Stat(key); err == nil {
		t.Error("a new master key was made for an old database")
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}

	change := func(do func(db *gorm.DB) error) {
		t.Helper()
		db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline("sqlite:" + filepath.Join(s.data, "sluice.db"))})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = database.Close(db) }()
		if err := do(db); err != nil {
			t.Fatal(err)
		}
	}
	change(func(db *gorm.DB) error {
		return errors.Join(db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)").Error,
			db.Exec("UPDATE installation_compatibility SET floor = 99").Error)
	})
	for _, command := range []string{"up", "serve", "migrate"} {
		s.run(command).wants(t, exitFailed, "schema version 99", "newer release", "install the newer release")
	}
	s.run("doctor").wants(t, exitFindings, "newer release")

	// The same installation with the database of a release that knew eight migrations.
	for _, name := range []string{"sluice.db", "sluice.db-wal", "sluice.db-shm"} {
		if err := os.RemoveAll(filepath.Join(s.data, name)); err != nil {
			t.Fatal(err)
		}
	}
	change(func(db *gorm.DB) error {
		pool, err := db.DB()
		if err != nil {
			return err
		}
		p, err := goose.NewProvider(goose.DialectSQLite3, pool, os.DirFS("../../../migrations/sqlite"))
		if err != nil {
			return err
		}
		_, err = p.UpTo(t.Context(), 8)
		return err
	})
	s.run("serve").wants(t, exitFailed, "sluice migrate")
	s.run("migrate", "--check").wants(t, exitFindings, "schema version 8")
	s.run("migrate").wants(t, exitOK, "schema version")
	s.run("migrate", "--check").wants(t, exitOK, "schema version")
}

// TestUnwritableData runs as an ordinary user, since nothing is unwritable for root.
func TestUnwritableData(t *testing.T) {
	s := newSite(t, nil, quiet)
	for _, dir := range []string{s.dir, filepath.Dir(s.dir), filepath.Dir(filepath.Dir(s.dir))} {
		_ = os.Chmod(dir, 0o755) // another user must get there
	}
	if err := os.Mkdir(s.data, 0o500); err != nil {
		t.Fatal(err)
	}
	chmod(t, s.config, 0o644)
	attr := &syscall.SysProcAttr{}
	program := os.Args[0]
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		program = copyProgram(t, s.dir)
		if err := os.Chown(s.data, 65534, 65534); err != nil {
			t.Skipf("cannot become another user: %v", err)
		}
	}
	cmd := exec.Command(program, "up")
	cmd.Env = []string{"SLUICE_TEST_CLI=1", "SLUICE_CONFIG=" + s.config, "HOME=" + s.dir}
	cmd.SysProcAttr = attr
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("start: %v", err)
	}
	result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}.wants(t, exitFailed, s.data, "cannot be written", "permission denied", "--data")
}

// copyProgram puts the test binary where another user may run it: the build directory is private.
func copyProgram(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(dir, "sluice.test")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
