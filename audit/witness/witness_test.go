package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/internal/sleep"
)

func mustPass(t *testing.T, w *Witness) {
	t.Helper()
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// mustObject passes, wants an alarm of the kind, kept as evidence with both notes, and nothing cosigned or forgotten.
func mustObject(t *testing.T, l *testLog, w *Witness, kind string) {
	t.Helper()
	before, posts := remembered(t, l, w.cfg.Dir), l.posts()
	err := w.Pass(t.Context())
	if !errors.Is(err, ErrAlarm) || !strings.Contains(err.Error(), kind) {
		t.Errorf("want an alarm %q, got %v", kind, err)
	}
	if after := remembered(t, l, w.cfg.Dir); after != before || l.posts() != posts {
		t.Errorf("it cosigned or moved its memory from %v to %v", before, after)
	}
	files, err := filepath.Glob(filepath.Join(w.cfg.Dir, alarmDir, kind+"-*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no evidence of %q is kept: %v", kind, err)
	}
	raw, err := os.ReadFile(files[0])
	var a alarm
	if err != nil || json.Unmarshal(raw, &a) != nil || a.Kind != kind || a.Why == "" || a.Shown == "" || a.Remembered == "" || a.Time.IsZero() {
		t.Errorf("the evidence is not whole: %s %v", raw, err)
	}
}

// clearAlarms does what a person does who has looked at the alarms.
func clearAlarms(t *testing.T, w *Witness) {
	t.Helper()
	files, err := w.alarms()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(filepath.Join(w.cfg.Dir, alarmDir, f)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGrowth(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 3)
	w, lines := l.watch(l.config(t.TempDir()))
	mustPass(t, w)
	if !strings.Contains(lines.String(), "first contact") || !strings.Contains(lines.String(), "level=WARN") {
		t.Errorf("trust on first use must be said: %s", lines)
	}
	for _, n := range []int{1, 1, 250, 1, 1, 300, 66_000, 1} {
		l.grow("a", n)
		mustPass(t, w)
		got, by := l.cosignedBy(w.Key())
		if want := (checkpoint.Tree{Size: l.tree.size, Root: l.tree.root(l.tree.size)}); got != want || remembered(t, l, w.cfg.Dir) != want {
			t.Fatalf("cosigned %v, remembers %v, want %v", got, remembered(t, l, w.cfg.Dir), want)
		}
		if len(by) != 1 || by[0].Witness != "w1" || by[0].Time.Unix() != 1_800_000_000 {
			t.Fatalf("cosigned by %v", by)
		}
	}
	posts := l.posts()
	mustPass(t, w)
	if l.posts() != posts {
		t.Error("a log that did not grow is cosigned again")
	}
	if s := w.State(); !s.OK || s.Size != l.tree.size || s.Log != origin || s.Witness != w.Key() || len(s.Alarms) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestEmptyLog(t *testing.T) {
	l := newTestLog(t)
	w, _ := l.watch(l.config(t.TempDir()))
	mustPass(t, w)
	if l.posts() != 0 {
		t.Error("an empty log was cosigned")
	}
	l.grow("a", 1)
	mustPass(t, w)
	l.set(func() { l.tree = &tree{} })
	mustObject(t, l, w, kindRollback)
}

// TestObjections: what a log can state that contradicts an earlier statement.
func TestObjections(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		lie  func(l *testLog)
	}{
		"an older copy": {kindRollback, func(l *testLog) { l.tree = &tree{}; l.tree.grow("a", 300) }},
		"an older copy that went on": {kindHistory, func(l *testLog) {
			l.tree = &tree{}
			l.tree.grow("a", 300)
			l.tree.grow("b", 900)
		}},
		"the newest record gone":        {kindRollback, func(l *testLog) { l.tree = &tree{}; l.tree.grow("a", 699) }},
		"a replayed checkpoint":         {kindRollback, func(l *testLog) { l.note = l.signAs(l.signer, 300, l.tree.root(300)) }},
		"another history, same size":    {kindFork, func(l *testLog) { l.tree = &tree{}; l.tree.grow("b", 700) }},
		"another last record":           {kindFork, func(l *testLog) { l.tree = &tree{}; l.tree.grow("a", 699); l.tree.grow("b", 1) }},
		"another first record, larger":  {kindHistory, func(l *testLog) { l.tree = &tree{}; l.tree.grow("b", 1); l.tree.grow("a", 800) }},
		"another record before the end": {kindHistory, func(l *testLog) { l.tree = &tree{}; l.tree.grow("a", 699); l.tree.grow("b", 1); l.tree.grow("a", 100) }},
		"a root that nothing has": {kindHashes, func(l *testLog) {
			l.tree.grow("a", 1)
			l.note = l.signAs(l.signer, l.tree.size, tlog.RecordHash([]byte("x")))
		}},
		"a size that no log has": {kindKey, func(l *testLog) { l.note = l.signAs(l.signer, 1<<62, tlog.RecordHash([]byte("x"))) }},
		"another key": {kindKey, func(l *testLog) {
			l.tree.grow("a", 1)
			l.note = l.signAs(newSigner(l.t, 2), l.tree.size, l.tree.root(l.tree.size))
		}},
		"no signature that holds": {kindKey, func(l *testLog) {
			l.tree.grow("a", 1)
			l.note = strings.Replace(l.sign(l.tree), "\n701\n", "\n702\n", 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestLog(t)
			l.grow("a", 700)
			dir := t.TempDir()
			w, lines := l.watch(l.config(dir))
			mustPass(t, w)
			honest := l.tree.copy()
			l.set(func() { c.lie(l) })
			mustObject(t, l, w, c.kind)
			mustObject(t, l, w, c.kind) // at every pass
			if n := strings.Count(lines.String(), "level=ERROR"); n != 2 {
				t.Errorf("%d error lines after two passes:\n%s", n, lines)
			}
			if files, _ := w.alarms(); len(files) != 1 {
				t.Errorf("the same alarm is kept %d times", len(files))
			}
			// A restart forgets nothing.
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			w, _ = l.watch(l.config(dir))
			mustObject(t, l, w, c.kind)
			// The log comes back to what it stated: that is followed, and the alarm stays until a person clears it.
			l.set(func() { l.note, l.tree = "", honest.copy(); l.tree.grow("a", 50) })
			if err := w.Pass(t.Context()); !errors.Is(err, ErrAlarm) || !strings.Contains(err.Error(), "move the files away") {
				t.Errorf("the alarm is forgotten: %v", err)
			}
			if got := remembered(t, l, dir); got.Size != 750 {
				t.Errorf("it remembers %d records, want 750", got.Size)
			}
			clearAlarms(t, w)
			mustPass(t, w)
		})
	}
}

// TestChangedTiles changes each tile that a proof needs, in every way a database can: no changed tile leads to a cosignature.
func TestChangedTiles(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 70_000)
	w, _ := l.watch(l.config(t.TempDir()))
	mustPass(t, w)
	l.grow("a", 1000)
	var paths []string
	l.set(func() {
		l.refuses = true // so that the pass can be made again
		l.tile = func(path string, data []byte) []byte { paths = append(paths, path); return data }
	})
	old, note := w.tree, w.note
	if err := w.Pass(t.Context()); err == nil || errors.Is(err, ErrAlarm) {
		t.Fatal(err)
	}
	if len(paths) < 4 {
		t.Fatalf("only tiles %q were read", paths)
	}
	l.set(func() { l.refuses = false })
	forget := func() { w.tree, w.note = old, note }
	for i, victim := range paths {
		for name, change := range map[string]func([]byte) []byte{
			"flipped": func(b []byte) []byte { b[(i*37)%len(b)] ^= 1; return b },
			"zeroed":  func(b []byte) []byte { return make([]byte, len(b)) },
			"cut":     func(b []byte) []byte { return b[:len(b)-1] },
			"longer":  func(b []byte) []byte { return append(b, 0) },
			"empty":   func([]byte) []byte { return nil },
		} {
			forget()
			if err := replaceFile(filepath.Join(w.cfg.Dir, checkpointFile), []byte(note)); err != nil {
				t.Fatal(err)
			}
			l.set(func() {
				l.tile = func(path string, data []byte) []byte {
					if path == victim {
						return change(slices.Clone(data))
					}
					return data
				}
			})
			posts := l.posts()
			err := w.Pass(t.Context())
			if err == nil || l.posts() != posts || remembered(t, l, w.cfg.Dir) != old {
				t.Fatalf("tile %s %s: cosigned (%v)", victim, name, err)
			}
			if wrong := name == "flipped" || name == "zeroed"; wrong != errors.Is(err, ErrAlarm) {
				t.Errorf("tile %s %s: %v", victim, name, err)
			}
			clearAlarms(t, w)
		}
	}
	l.set(func() { l.tile = nil })
	mustPass(t, w)
}

// TestOtherTroubles: what says nothing about the history is no alarm, is said, and is never cosigned.
func TestOtherTroubles(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(out http.ResponseWriter, _ *http.Request) bool {
			http.Error(out, "no", code)
			return true
		}
	}
	text := func(s string) func(http.ResponseWriter, *http.Request) bool {
		return func(out http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(out, s); return true }
	}
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request) bool
		says   string
	}{
		"no checkpoint yet": {status(404), "404"},
		"failing":           {status(500), "500"},
		"a sign-in page":    {text("<html>please sign in</html>"), "is the address of the log right?"},
		"nothing":           {text(""), "malformed"},
		"without end": {func(out http.ResponseWriter, _ *http.Request) bool {
			for range 40 {
				_, _ = out.Write(make([]byte, 4096))
			}
			return true
		}, "longer than"},
		"a redirect": {func(out http.ResponseWriter, r *http.Request) bool {
			http.Redirect(out, r, "/elsewhere", http.StatusFound)
			return true
		}, "302"},
		"cut off": {func(out http.ResponseWriter, _ *http.Request) bool {
			out.Header().Set("Content-Length", "100")
			_, _ = out.Write([]byte("x"))
			return true
		}, "EOF"},
		"tiles missing": {func(out http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tile/") {
				return false
			}
			http.NotFound(out, r)
			return true
		}, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestLog(t)
			l.grow("a", 10)
			w, _ := l.watch(l.config(t.TempDir()))
			mustPass(t, w)
			l.set(func() { l.tree.grow("a", 10); l.before = c.before })
			err := w.Pass(t.Context())
			if err == nil || errors.Is(err, ErrAlarm) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			if l.posts() != 1 || w.State().OK || w.State().Error == "" {
				t.Errorf("%d posts, %+v", l.posts(), w.State())
			}
			l.set(func() { l.before = nil })
			mustPass(t, w)
		})
	}
}

// TestRemembersBeforeItSpeaks: when the cosignature leaves, the checkpoint is on the disk already.
func TestRemembersBeforeItSpeaks(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	dir := t.TempDir()
	w, _ := l.watch(l.config(dir))
	l.set(func() {
		l.before = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				if got := remembered(t, l, dir); got.Size != l.tree.size {
					t.Errorf("it speaks before it remembers: %v", got)
				}
			}
			return false
		}
	})
	mustPass(t, w)
	if l.posts() != 1 {
		t.Fatal("nothing was handed in")
	}
	// A disk that takes nothing: nothing is cosigned.
	if os.Geteuid() == 0 {
		if err := os.Mkdir(filepath.Join(dir, checkpointFile+".new"), 0o700); err != nil {
			t.Fatal(err)
		}
	} else if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	l.grow("a", 5)
	if err := w.Pass(t.Context()); err == nil || l.posts() != 1 || w.tree.Size != 5 {
		t.Errorf("cosigned what it cannot remember: %v", err)
	}
	_ = os.Chmod(dir, 0o700)
	_ = os.Remove(filepath.Join(dir, checkpointFile+".new"))
	mustPass(t, w)
}

// TestHandsBackUntilTaken: a cosignature that the log did not take is sent again, also after a restart, until the log shows it.
func TestHandsBackUntilTaken(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	l.set(func() { l.refuses = true })
	dir := t.TempDir()
	w, _ := l.watch(l.config(dir))
	for range 2 {
		if err := w.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
			t.Fatal(err)
		}
	}
	if remembered(t, l, dir).Size != 5 || w.State().Size != 5 {
		t.Error("what is proven is remembered, whether or not it is taken")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w, _ = l.watch(l.config(dir))
	if err := w.Pass(t.Context()); err == nil {
		t.Fatal("refused and not said")
	}
	l.set(func() { l.refuses = false })
	mustPass(t, w)
	mustPass(t, w)
	if l.posts() != 1 {
		t.Errorf("handed in %d times", l.posts())
	}
	if got, by := l.cosignedBy(w.Key()); got.Size != 5 || len(by) != 1 {
		t.Errorf("%v %v", got, by)
	}
	// A cosignature in our name that we did not make.
	l.set(func() {
		for text, line := range l.lines {
			l.lines[text] = strings.Replace(line, "AAAA", "AAAB", 1)
		}
	})
	if err := w.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "does not hold") {
		t.Errorf("a forged cosignature: %v", err)
	}
}

// TestTwoWitnesses watch one log, know nothing of each other, and both show.
func TestTwoWitnesses(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	a, _ := l.watch(l.config(t.TempDir()))
	second := l.config(t.TempDir())
	second.Name = "w2"
	b, _ := l.watch(second)
	if a.Key() == b.Key() {
		t.Fatal("two witnesses have one key")
	}
	for range 2 {
		mustPass(t, a)
		mustPass(t, b)
		if _, by := l.cosignedBy(a.Key(), b.Key()); len(by) != 2 {
			t.Errorf("cosigned by %v", by)
		}
		l.grow("a", 300)
	}
	// Each is shown another history: the one that saw the first objects to the second.
	mustPass(t, a)
	l.set(func() { l.tree = &tree{}; l.tree.grow("a", 305); l.tree.grow("b", 400) })
	mustObject(t, l, a, kindHistory)
	mustPass(t, b)
}

// TestFirstContactReadsTheTree: trusted or not, a root that no hashes give is not cosigned.
func TestFirstContactReadsTheTree(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 300)
	l.set(func() { l.note = l.signAs(l.signer, 300, tlog.RecordHash([]byte("x"))) })
	w, _ := l.watch(l.config(t.TempDir()))
	if err := w.Pass(t.Context()); !errors.Is(err, ErrAlarm) || !strings.Contains(err.Error(), kindHashes) || l.posts() != 0 || w.note != "" {
		t.Errorf("%v, %d posts", err, l.posts())
	}
}

func TestFirstCheckpointVouchedFor(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 300)
	first := checkpoint.Tree{Size: 200, Root: l.tree.root(200)}
	with := func(tree checkpoint.Tree) (*Witness, *strings.Builder) {
		cfg := l.config(t.TempDir())
		cfg.First = tree
		w, lines := l.watch(cfg)
		out := &strings.Builder{}
		err := w.Pass(t.Context())
		fmt.Fprint(out, err, lines)
		return w, out
	}
	for _, tree := range []checkpoint.Tree{first, {Size: 300, Root: l.tree.root(300)}} {
		if w, out := with(tree); !strings.HasPrefix(out.String(), "<nil>") || strings.Contains(out.String(), "first contact") || w.tree.Size != 300 {
			t.Errorf("%d: %s", tree.Size, out)
		}
	}
	posts := l.posts()
	for size, kind := range map[int64]string{200: kindHistory, 300: kindFork, 301: kindRollback} {
		w, out := with(checkpoint.Tree{Size: size, Root: tlog.RecordHash([]byte("x"))})
		if !strings.Contains(out.String(), kind) || w.note != "" {
			t.Errorf("%d: %s", size, out)
		}
	}
	if l.posts() != posts {
		t.Error("something else than what was vouched for was cosigned")
	}
}

func TestOpenRefuses(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	open := func(cfg Config) error {
		w, err := Open(cfg, slog.New(slog.DiscardHandler))
		if err == nil {
			_ = w.Close()
		}
		return err
	}
	refuses := func(says string, cfg Config) {
		t.Helper()
		if err := open(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
	dir := t.TempDir()
	for _, address := range []string{"", "x", "ftp://x/", "http:///x", "://"} {
		cfg := l.config(dir)
		cfg.URL = address
		refuses("http or https", cfg)
	}
	cfg := l.config(dir)
	cfg.Verifier = checkpoint.Verifier{}
	refuses("key of the log", cfg)
	cfg = l.config(dir)
	cfg.Name = "two words"
	refuses("cannot name a log or a witness", cfg)
	cfg = l.config(filepath.Join(dir, keyFile, "below a file"))
	refuses("not a directory", cfg)

	w, _ := l.watch(l.config(dir))
	mustPass(t, w)
	refuses("another process", l.config(dir))
	key := w.Key()
	if again, err := Key(Config{Dir: dir, Name: "w1"}); err != nil || again != key {
		t.Errorf("the key of a running witness: %v", err)
	}
	_ = w.Close()
	path := filepath.Join(dir, keyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v %v", info, err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		refuses("chmod 600", l.config(dir))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "xyz", string(good[:10]), string(good) + "00", strings.Repeat("0", 1000)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses("in hex", l.config(dir))
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg = l.config(dir)
	cfg.Verifier = newSigner(t, 9).Verifier()
	refuses("of another log", cfg)
	memory := filepath.Join(dir, checkpointFile)
	note, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "x", strings.Replace(string(note), "\n5\n", "\n4\n", 1)} {
		if err := os.WriteFile(memory, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses("file was changed", l.config(dir))
	}
}

// TestRunGoesOn: what fails is tried again, with growing pauses that are bounded and begin anew; alarms keep the usual pace.
func TestRunGoesOn(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	cfg := l.config(t.TempDir())
	cfg.Every = time.Minute
	w, lines := l.watch(cfg)
	down := func(out http.ResponseWriter, _ *http.Request) bool {
		http.Error(out, "down", http.StatusBadGateway)
		return true
	}
	steps := []func(){
		func() { l.before = down }, nil, nil, nil, nil,
		func() { l.before = nil; l.tree.grow("a", 1) },
		func() { l.before = down }, nil,
		func() { l.before = nil; l.tree = &tree{}; l.tree.grow("b", 2) }, nil,
	}
	want := []time.Duration{1, 1, 2, 4, 5, 5, 1, 1, 2, 1, 1}
	var pauses []time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.wait = func(_ context.Context, d time.Duration) bool {
		pauses = append(pauses, d/time.Minute)
		if len(steps) == 0 {
			cancel()
			return false
		}
		if steps[0] != nil {
			l.set(steps[0])
		}
		steps = steps[1:]
		return true
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	if n := strings.Count(lines.String(), "could not be witnessed"); n != 7 {
		t.Errorf("said %d times:\n%s", n, lines)
	}
	if n := strings.Count(lines.String(), "ALARM"); n != 2 {
		t.Errorf("%d alarms:\n%s", n, lines)
	}
	// The end of the context ends a real wait and a running request.
	w.wait = sleep.For
	l.set(func() { l.before = nil })
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTokens(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	valid := "t1"
	l.before = func(out http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+valid {
			return false
		}
		http.Error(out, "who?", http.StatusUnauthorized)
		return true
	}
	cfg := l.config(t.TempDir())
	w, _ := l.watch(cfg)
	if err := w.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
	_ = w.Close()
	token, asked := "t1", 0
	cfg.Token = func(_ context.Context, refused string) (string, error) {
		if refused != "" {
			asked++
			token = strings.Replace(refused, "1", "2", 1)
		}
		return token, nil
	}
	w, _ = l.watch(cfg)
	mustPass(t, w)
	l.set(func() { valid = "t2"; l.tree.grow("a", 1) })
	mustPass(t, w)
	if asked != 1 {
		t.Errorf("asked for a new token %d times", asked)
	}
	l.set(func() { valid = "t3"; l.asked = nil })
	if err := w.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a token nobody takes: %v", err)
	}
	if len(l.asked) != 1 {
		t.Errorf("the same token was shown again: %v", l.asked)
	}
	w.client.token = func(context.Context, string) (string, error) { return "", errors.New("no token today") }
	if err := w.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "no token today") {
		t.Error(err)
	}
}

func TestState(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 5)
	now := time.Unix(1_800_000_000, 0)
	cfg := l.config(t.TempDir())
	cfg.Now = func() time.Time { return now }
	w, _ := l.watch(cfg)
	ask := func(method, path string) (*httptest.ResponseRecorder, State) {
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		var s State
		_ = json.Unmarshal(rec.Body.Bytes(), &s)
		return rec, s
	}
	want := func(what string, status int) State {
		t.Helper()
		rec, s := ask(http.MethodGet, "/")
		if rec.Code != status || s.OK != (status == http.StatusOK) || s.Alarms == nil || s.Witness != w.Key() {
			t.Errorf("%s: %d %s", what, rec.Code, rec.Body)
		}
		return s
	}
	want("before the first pass", http.StatusServiceUnavailable)
	mustPass(t, w)
	if s := want("fine", http.StatusOK); s.Size != 5 || s.Root != l.tree.root(5).String() || !s.Passed.Equal(now) {
		t.Errorf("%+v", s)
	}
	now = now.Add(time.Hour)
	want("nothing for an hour", http.StatusServiceUnavailable)
	mustPass(t, w)
	want("fine again", http.StatusOK)
	l.set(func() { l.tree = &tree{}; l.tree.grow("a", 4) })
	_ = w.Pass(t.Context())
	if s := want("alarm", http.StatusServiceUnavailable); len(s.Alarms) != 1 || !strings.HasPrefix(s.Alarms[0], "rollback-") || s.Size != 5 {
		t.Errorf("%+v", s)
	}
	if rec, _ := ask(http.MethodGet, "/x"); rec.Code != http.StatusNotFound {
		t.Error(rec.Code)
	}
	if rec, _ := ask(http.MethodPost, "/"); rec.Code != http.StatusMethodNotAllowed {
		t.Error(rec.Code)
	}
}

// TestAlarmsAreBounded: a log that contradicts itself in ever new ways does not fill the disk.
func TestAlarmsAreBounded(t *testing.T) {
	l := newTestLog(t)
	l.grow("a", 400)
	w, _ := l.watch(l.config(t.TempDir()))
	mustPass(t, w)
	for i := range int64(maxAlarms + 20) {
		l.set(func() { l.note = l.signAs(l.signer, i+1, l.tree.root(i+1)) })
		if err := w.Pass(t.Context()); !errors.Is(err, ErrAlarm) {
			t.Fatal(err)
		}
	}
	if files, err := w.alarms(); err != nil || len(files) != maxAlarms {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestRandomHistories: honest growth of any shape is cosigned; after any rewrite of what was cosigned nothing is, whatever follows.
func TestRandomHistories(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 6))
	t.Logf("seed %d", seed)
	for round := range rounds {
		l := newTestLog(t)
		w, _ := l.watch(l.config(t.TempDir()))
		for range 1 + random.IntN(6) {
			l.grow("a", random.IntN(1<<random.IntN(10)))
			mustPass(t, w)
			if got, _ := l.cosignedBy(w.Key()); got.Size != l.tree.size {
				t.Fatalf("round %d: %d records, cosigned %d", round, l.tree.size, got.Size)
			}
		}
		size := l.tree.size
		if size == 0 {
			continue
		}
		l.set(func() { // another history from a random place on, of a random length
			from := random.Int64N(size)
			l.tree = &tree{}
			l.tree.grow("a", int(from))
			l.tree.grow("b", random.IntN(2*int(size)))
		})
		for range 3 {
			posts := l.posts()
			if err := w.Pass(t.Context()); !errors.Is(err, ErrAlarm) || l.posts() != posts || remembered(t, l, w.cfg.Dir).Size != size {
				t.Fatalf("round %d: %d records rewritten to %d: %v", round, size, l.tree.size, err)
			}
			clearAlarms(t, w)
			l.grow("b", random.IntN(300))
		}
		_ = w.Close()
		l.server.Close()
	}
}

// FuzzCheckpoint shows a witness anything for a checkpoint: only what the log signed and proves moves its memory.
func FuzzCheckpoint(f *testing.F) {
	seeds := &testLog{signer: newSigner(f, 1), tree: &tree{}}
	seeds.tree.grow("a", 10)
	note := seeds.sign(seeds.tree)
	f.Add(note)
	f.Add(strings.Replace(note, "10", "11", 1))
	f.Add(note + note[strings.LastIndex(note, "—"):])
	f.Add(strings.Replace(note, "\n\n", "\nextension\n\n", 1))
	f.Add(origin + "\n99999999999999999999\n\n")
	f.Add("")
	w := fuzzWitness(f, seeds)
	known, text := w.tree, w.note
	f.Fuzz(func(t *testing.T, shown string) {
		seeds.set(func() {
			seeds.before = func(out http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/checkpoint") {
					_, _ = io.WriteString(out, shown)
					return true
				}
				return false
			}
		})
		err := w.Pass(t.Context())
		if w.tree != known || w.note != text {
			t.Fatalf("%q moved the memory", shown)
		}
		if tree, verr := seeds.signer.Verifier().Open(shown); err == nil && (verr != nil || tree != known) {
			t.Fatalf("%q was taken", shown)
		}
		clearAlarms(t, w)
	})
}

// fuzzWitness is a witness that has seen the log, over a transport without a network.
func fuzzWitness(f *testing.F, l *testLog) *Witness {
	f.Helper()
	l.lines = map[string]string{}
	w, err := Open(Config{
		URL: "http://log.example/log", Verifier: l.signer.Verifier(), Name: "w1", Dir: f.TempDir(),
		Client: &http.Client{Transport: direct(l.serve)},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	if err := w.Pass(f.Context()); err != nil {
		f.Fatal(err)
	}
	return w
}

type direct http.HandlerFunc

func (h direct) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h(rec, r)
	return rec.Result(), nil
}
