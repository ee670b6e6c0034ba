package keysource

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/seal"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func inChinese(err error) string {
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return ""
	}
	return e.In(message.Chinese)
}

// installation is one whose master key is plain, and is to be stored as kind.
func installation(t *testing.T, kind string) Config {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Kind: kind, PlainFile: filepath.Join(dir, "keys", "master.key"), SealedFile: filepath.Join(dir, "keys", "master.sealed.json"), Suite: seal.Intl}
	if _, err := keyring.Create(cfg.PlainFile); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func plain(t *testing.T, cfg Config) []byte {
	t.Helper()
	root, err := keyring.ReadMaster(cfg.PlainFile)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// sealIt seals and shreds, and returns the master key.
func sealIt(t *testing.T, cfg Config, hand Handover) []byte {
	t.Helper()
	root := plain(t, cfg)
	c := New(cfg)
	if err := c.Seal(t.Context(), Split{3, 2}, hand); err != nil {
		t.Fatal(err)
	}
	if err := c.Shred(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.PlainFile); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the plain file is still there: %v", err)
	}
	return root
}

func wantRoot(t *testing.T, cfg Config, root []byte) {
	t.Helper()
	ring, err := New(cfg).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ring.Derive("x"), keyring.FromBytes(root).Derive("x")) {
		t.Fatal("another master key was opened")
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func hexKey(b byte) string { return strings.Repeat(hex.EncodeToString([]byte{b}), keySize) }

// sources are the kinds whose key is at hand, each ready to seal and to be opened, with what a rotation needs first.
func sources(t *testing.T) map[string]struct {
	prepare func(t *testing.T, cfg *Config) (hand Handover)
	rotate  func(t *testing.T, cfg *Config)
} {
	type source = struct {
		prepare func(t *testing.T, cfg *Config) Handover
		rotate  func(t *testing.T, cfg *Config)
	}
	inFiles := func(t *testing.T, cfg *Config) Handover {
		return func(shares []string) error {
			cfg.ShareFiles = nil
			for i, s := range shares {
				cfg.ShareFiles = append(cfg.ShareFiles, write(t, filepath.Join(t.TempDir(), fmt.Sprint(i)), s))
			}
			return nil
		}
	}
	return map[string]source{
		KindFile: {func(t *testing.T, cfg *Config) Handover { cfg.File = filepath.Join(t.TempDir(), "key"); return nil }, func(*testing.T, *Config) {}},
		KindEnv: {func(t *testing.T, cfg *Config) Handover {
			cfg.Env = "KEY_OF_TEST"
			t.Setenv(cfg.Env, hexKey(1))
			return nil
		}, func(t *testing.T, cfg *Config) { t.Setenv(cfg.Env, hexKey(2)+","+hexKey(1)) }},
		KindShares: {inFiles, func(*testing.T, *Config) {}},
		KindHelper: {func(t *testing.T, cfg *Config) Handover { cfg.Helper = testHelper(t, "good"); return nil }, func(t *testing.T, cfg *Config) { cfg.Helper = testHelper(t, "rotated") }},
	}
}

// TestEachSource seals, opens, opens a copy as a replica does, and changes the key, under both suites. The master key stays the same.
func TestEachSource(t *testing.T) {
	for kind, src := range sources(t) {
		for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
			t.Run(kind+" "+string(suite), func(t *testing.T) {
				cfg := installation(t, kind)
				cfg.Suite = suite
				hand := src.prepare(t, &cfg)
				env := os.Getenv(cfg.Env)
				reset := func() {
					if cfg.Env != "" {
						t.Setenv(cfg.Env, env)
					}
				}
				root := sealIt(t, cfg, hand)
				if cfg.Env != "" {
					if _, there := os.LookupEnv(cfg.Env); there {
						t.Error("the variable is left to child processes")
					}
				}
				reset()
				wantRoot(t, cfg, root)

				replica := cfg
				replica.PlainFile, replica.SealedFile = filepath.Join(t.TempDir(), "k"), filepath.Join(t.TempDir(), "s")
				old, err := os.ReadFile(cfg.SealedFile)
				if err != nil {
					t.Fatal(err)
				}
				write(t, replica.SealedFile, string(old))
				reset()
				wantRoot(t, replica, root)

				before, err := New(cfg).Status()
				if err != nil || before.Kind != kind || before.Leftover {
					t.Errorf("%+v, %v", before, err)
				}
				src.rotate(t, &cfg)
				if cfg.Env != "" {
					env = os.Getenv(cfg.Env)
				}
				if err := New(cfg).Reseal(t.Context(), New(cfg), Split{5, 3}, hand); err != nil {
					t.Fatal(err)
				}
				after, err := New(cfg).Status()
				if err != nil || after.KeyID == before.KeyID || after.Check != before.Check {
					t.Errorf("before %+v, after %+v, %v", before, after, err)
				}
				if kind == KindEnv {
					env, _, _ = strings.Cut(env, ",") // the old one is taken out
				}
				reset()
				wantRoot(t, cfg, root)
				for _, b := range [][]byte{old, must(t, cfg.SealedFile)} {
					if bytes.Contains(b, root) || strings.Contains(string(b), hex.EncodeToString(root)) {
						t.Error("the sealed file has the master key")
					}
				}
				if kind == KindHelper {
					return // whose device keeps the key before
				}
				write(t, replica.SealedFile, string(old))
				replica.File, replica.ShareFiles, replica.Helper = cfg.File, cfg.ShareFiles, cfg.Helper
				reset()
				if _, err := New(replica).Open(t.Context()); err == nil {
					t.Error("the key before still lies with the new one")
				}
			})
		}
	}
}

func must(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCrashAtEveryStep: sealing, resealing and shredding with a disk that fails at each operation, in each way. Whatever is left opens, and the
// same command completes it.
func TestCrashAtEveryStep(t *testing.T) {
	ops := []string{"create", "open", "write", "sync", "close", "rename", "syncdir", "remove"}
	for _, kind := range []string{KindFile, KindShares} {
		for _, act := range []string{"seal", "reseal"} {
			failures := 0
			for _, op := range ops {
				for n := 1; ; n++ {
					reached := false
					modes := []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter}
					if op == "write" {
						modes = append(modes, durabletest.FailsHalf, durabletest.FailsShort)
					}
					for _, mode := range modes {
						cfg := installation(t, kind)
						hand := sources(t)[kind].prepare(t, &cfg)
						root := plain(t, cfg)
						do := func(disk *durabletest.Files) error {
							c := New(cfg)
							c.disk = disk
							if act == "reseal" {
								return c.Reseal(t.Context(), New(cfg), Split{3, 2}, hand)
							}
							if err := c.Seal(t.Context(), Split{3, 2}, hand); err != nil {
								return err
							}
							return c.Shred(t.Context())
						}
						if act == "reseal" {
							sealIt(t, cfg, hand)
						}
						shares := slices.Clone(cfg.ShareFiles)
						disk := &durabletest.Files{}
						hit := false
						plan := durabletest.Once(op, n, mode, false)
						disk.Set(func(got string) durabletest.Mode {
							m := plan(got)
							hit = hit || m != durabletest.Healthy
							return m
						})
						err := do(disk)
						if !hit {
							break
						}
						reached = true
						failures++
						opens := func(cfg Config) bool {
							cfg.Kind = ""
							ring, err := New(cfg).Open(t.Context())
							return err == nil && bytes.Equal(ring.Derive("x"), keyring.FromBytes(root).Derive("x"))
						}
						withOld := cfg
						withOld.ShareFiles = shares
						if !opens(cfg) && !opens(withOld) {
							t.Fatalf("%s %s: %s %d fails (%d): %v, and nothing opens", kind, act, op, n, mode, err)
						}
						if !opens(cfg) {
							cfg = withOld // the custodians keep the old shares until the command has succeeded
						}
						if st, serr := New(cfg).Status(); act == "seal" && serr == nil && st.Kind != Plain && !st.Leftover {
							continue // it was complete but for a sync
						}
						if err := do(&durabletest.Files{}); err != nil {
							t.Fatalf("%s %s again, after %s %d failed (%d): %v", kind, act, op, n, mode, err)
						}
						wantRoot(t, cfg, root)
						if st, err := New(cfg).Status(); err != nil || st.Leftover {
							t.Fatalf("%s %s again, after %s %d failed (%d): %+v, %v", kind, act, op, n, mode, st, err)
						}
						if left, _ := filepath.Glob(cfg.PlainFile + "*"); len(left) > 0 {
							t.Fatalf("left: %q", left)
						}
					}
					if !reached {
						break
					}
				}
			}
			if failures < 12 {
				t.Errorf("%s %s: only %d failures were injected", kind, act, failures)
			}
		}
	}
}

// TestRefusals: what cannot be opened is refused with its cause, shows nothing, and changes nothing.
func TestRefusals(t *testing.T) {
	shares := func(t *testing.T, cfg *Config) []string {
		var out []string
		sealIt(t, *cfg, func(s []string) error { out = s; return nil })
		return out
	}
	files := func(t *testing.T, texts ...string) (out []string) {
		for i, s := range texts {
			out = append(out, write(t, filepath.Join(t.TempDir(), fmt.Sprint(i)), s))
		}
		return out
	}
	withFile := func(t *testing.T, cfg *Config) { cfg.File = filepath.Join(t.TempDir(), "key"); sealIt(t, *cfg, nil) }
	for name, c := range map[string]struct {
		kind string
		id   message.ID
		make func(t *testing.T, cfg *Config)
	}{
		"the medium is away":    {KindFile, "keysource.no_key_file", func(t *testing.T, cfg *Config) { withFile(t, cfg); _ = os.Remove(cfg.File) }},
		"the file is readable":  {KindFile, "keysource.readable", func(t *testing.T, cfg *Config) { withFile(t, cfg); _ = os.Chmod(cfg.File, 0o640) }},
		"the key is another":    {KindFile, "keysource.key_not_there", func(t *testing.T, cfg *Config) { withFile(t, cfg); write(t, cfg.File, hexKey(9)) }},
		"the key is no hex":     {KindFile, "keysource.no_hex", func(t *testing.T, cfg *Config) { withFile(t, cfg); write(t, cfg.File, "canary") }},
		"the file is empty":     {KindFile, "keysource.no_hex", func(t *testing.T, cfg *Config) { withFile(t, cfg); write(t, cfg.File, "\n") }},
		"no file is configured": {KindFile, "keysource.not_configured", func(t *testing.T, cfg *Config) { withFile(t, cfg); cfg.File, cfg.Kind = "", "" }},
		"still plain":           {KindFile, "keysource.plain", func(*testing.T, *Config) {}},
		"sealed otherwise":      {KindFile, "keysource.other_kind", func(t *testing.T, cfg *Config) { withFile(t, cfg); cfg.Kind = KindEnv }},
		"no variable": {KindEnv, "keysource.no_variable", func(t *testing.T, cfg *Config) {
			cfg.Env = "KEY_OF_TEST"
			t.Setenv(cfg.Env, hexKey(1))
			sealIt(t, *cfg, nil)
		}},
		"one share":       {KindShares, "keysource.shares_missing", func(t *testing.T, cfg *Config) { cfg.ShareFiles = files(t, shares(t, cfg)[0]) }},
		"one share twice": {KindShares, "keysource.share_twice", func(t *testing.T, cfg *Config) { s := shares(t, cfg); cfg.ShareFiles = files(t, s[0], s[0]) }},
		"a mistyped share": {KindShares, "keysource.in_file", func(t *testing.T, cfg *Config) {
			s := shares(t, cfg)
			cfg.ShareFiles = files(t, s[0], s[1][:40]+flip(s[1][40:41])+s[1][41:])
		}},
		"shares of two sets": {KindShares, "keysource.share_of_set", func(t *testing.T, cfg *Config) {
			s := shares(t, cfg)
			other, _ := split(make([]byte, 32), ofSealingKey, Split{3, 2})
			cfg.ShareFiles = files(t, s[0], other[1])
		}},
		"shares of a copy": {KindShares, "keysource.share_of_other", func(t *testing.T, cfg *Config) {
			shares(t, cfg)
			other, _ := split(make([]byte, 32), ofMasterKey, Split{3, 2})
			cfg.ShareFiles = files(t, other...)
		}},
		"shares of another key": {KindShares, "keysource.key_not_there", func(t *testing.T, cfg *Config) {
			shares(t, cfg)
			other, _ := split(make([]byte, 32), ofSealingKey, Split{3, 2})
			cfg.ShareFiles = files(t, other...)
		}},
		"a forged share": {KindShares, "keysource.shares_unfit", func(t *testing.T, cfg *Config) {
			s := shares(t, cfg)
			forged, _ := parseShare(s[1])
			forged.data[0] ^= 1
			cfg.ShareFiles = files(t, s[0], forged.String())
		}},
		"a mistyped share at the terminal": {KindShares, "keysource.share_mistyped", func(t *testing.T, cfg *Config) {
			s := shares(t, cfg)
			cfg.Ask = func(context.Context, int, int) (string, error) { return s[0][:30] + flip(s[0][30:31]) + s[0][31:], nil }
		}},
		"typed nonsense": {KindShares, "keysource.no_share", func(t *testing.T, cfg *Config) {
			shares(t, cfg)
			cfg.Ask = func(context.Context, int, int) (string, error) { return "canary", nil }
		}},
		"half a sealed file": {KindFile, "keysource.damaged", func(t *testing.T, cfg *Config) {
			withFile(t, cfg)
			b := must(t, cfg.SealedFile)
			write(t, cfg.SealedFile, string(b[:len(b)/2]))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := installation(t, c.kind)
			c.make(t, &cfg)
			_, err := New(cfg).Open(t.Context())
			if !Is(err, c.id) {
				t.Fatalf("%v", err)
			}
			if errors.Is(err, fs.ErrNotExist) {
				t.Error("it passes for a missing master key")
			}
			for _, secret := range []string{"canary", hexKey(9), "SLUICE1-S-"} {
				if strings.Contains(err.Error()+inChinese(err), secret) {
					t.Errorf("shown: %v", err)
				}
			}
			if strings.Contains(err.Error(), "%!") || strings.Contains(inChinese(err), "%!") {
				t.Errorf("%v", err)
			}
		})
	}
}

func flip(c string) string {
	if c == "A" {
		return "B"
	}
	return "A"
}

// TestSharesAreAsked: what files do not have is typed, in any case and with spaces.
func TestSharesAreAsked(t *testing.T) {
	cfg := installation(t, KindShares)
	var shares []string
	root := sealIt(t, cfg, func(s []string) error { shares = s; return nil })
	cfg.ShareFiles = []string{write(t, filepath.Join(t.TempDir(), "a"), shares[2]+"\n")}
	asked := 0
	cfg.Ask = func(_ context.Context, number, threshold int) (string, error) {
		asked++
		if number != 2 || threshold != 2 {
			t.Errorf("asked for %d of %d", number, threshold)
		}
		return " " + strings.ToLower(shares[0][:20]) + " \t" + shares[0][20:], nil
	}
	wantRoot(t, cfg, root)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestEveryFieldIsBound: nobody can change anything in a sealed file without its being noticed, but for the time that is shown.
func TestEveryFieldIsBound(t *testing.T) {
	cfg := installation(t, KindFile)
	cfg.File = filepath.Join(t.TempDir(), "key")
	root := sealIt(t, cfg, nil)
	cfg.Kind = ""
	good := must(t, cfg.SealedFile)
	s, err := parseSealed(good)
	if err != nil {
		t.Fatal(err)
	}
	key := newest(t, cfg.File)
	for name, change := range map[string]func(s *Sealed){
		"format": func(s *Sealed) { s.Format = 2 }, "kind": func(s *Sealed) { s.Kind = KindEnv }, "unknown kind": func(s *Sealed) { s.Kind = "x" }, "key": func(s *Sealed) { s.KeyID = "000000000000" },
		"check": func(s *Sealed) { s.Check = "0000000000000000" }, "suite": func(s *Sealed) { s.Suite = seal.GM }, "no suite": func(s *Sealed) { s.Suite = "" },
		"shares": func(s *Sealed) { s.Shares, s.Threshold = 3, 2 }, "wrapped": func(s *Sealed) { s.Wrapped = flip(s.Wrapped[:1]) + s.Wrapped[1:] }, "cut": func(s *Sealed) { s.Wrapped = s.Wrapped[:8] },
		"kind shares": func(s *Sealed) { s.Kind, s.Shares, s.Threshold = KindShares, 3, 2 },
	} {
		t.Setenv("KEY_OF_TEST", key)
		other := s
		change(&other)
		write(t, cfg.SealedFile, string(other.encode()))
		c := cfg
		c.Env = "KEY_OF_TEST"
		c.Ask = func(context.Context, int, int) (string, error) { return "", io.EOF }
		if _, err := New(c).Open(t.Context()); err == nil {
			t.Errorf("%s was changed", name)
		}
	}
	for _, text := range []string{"", "{}", "[]", string(good) + "{}", strings.Replace(string(good), "{", `{"more": 1,`, 1)} {
		if _, err := parseSealed([]byte(text)); err == nil {
			t.Errorf("parsed %q", text)
		}
	}
	write(t, cfg.SealedFile, string(good))
	wantRoot(t, cfg, root)
}

func newest(t *testing.T, file string) string {
	t.Helper()
	return strings.Fields(string(must(t, file)))[0]
}

// TestFileKeepsTheOldKeyUntilItIsNotNeeded: a key that somebody put in front is used, and one that is in use stays until then.
func TestFileKeepsTheOldKeyUntilItIsNotNeeded(t *testing.T) {
	cfg := installation(t, KindFile)
	cfg.File = write(t, filepath.Join(t.TempDir(), "key"), hexKey(1)+"\n"+hexKey(5)+"\n")
	root := sealIt(t, cfg, nil)
	if got := string(must(t, cfg.File)); got != hexKey(1)+"\n"+hexKey(5)+"\n" {
		t.Errorf("sealing has changed the file: %s", got)
	}
	write(t, cfg.File, hexKey(2)+" "+hexKey(1))
	wantRoot(t, cfg, root)
	if err := New(cfg).Reseal(t.Context(), New(cfg), Split{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(must(t, cfg.File)); got != hexKey(2)+"\n" {
		t.Errorf("the file has %s", got)
	}
	wantRoot(t, cfg, root)
}

// TestSameVariable: a variable whose first key is the one in use gives no new one.
func TestSameVariable(t *testing.T) {
	cfg := installation(t, KindEnv)
	cfg.Env = "KEY_OF_TEST"
	t.Setenv(cfg.Env, hexKey(1))
	sealIt(t, cfg, nil)
	t.Setenv(cfg.Env, hexKey(1))
	if err := New(cfg).Reseal(t.Context(), New(cfg), Split{}, nil); !Is(err, "keysource.same_key") {
		t.Errorf("%v", err)
	}
}

// TestCreate: a new installation is sealed from the beginning, and made once.
func TestCreate(t *testing.T) {
	cfg := installation(t, KindFile)
	cfg.File = filepath.Join(t.TempDir(), "key")
	if err := os.Remove(cfg.PlainFile); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg).Open(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	a, err := New(cfg).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(cfg).Open(t.Context())
	if err != nil || !bytes.Equal(a.Derive("x"), b.Derive("x")) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(cfg.PlainFile); err == nil {
		t.Error("it lay in a plain file")
	}
	if _, err := New(cfg).Create(t.Context()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	cfg.Kind = KindShares
	if _, err := New(cfg).Create(t.Context()); !Is(err, "keysource.shares_later") {
		t.Errorf("%v", err)
	}
}

// TestRecovery: a copy, whole or in shares, brings the plain file back when the source is lost, and that of another installation does not.
func TestRecovery(t *testing.T) {
	for _, as := range []Split{{}, {3, 2}, {8, 8}} {
		cfg := installation(t, KindFile)
		cfg.File = filepath.Join(t.TempDir(), "key")
		root := sealIt(t, cfg, nil)
		texts, err := New(cfg).Export(t.Context(), as)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(cfg.File); err != nil {
			t.Fatal(err)
		}
		other := make([]byte, 32)
		foreignShares, _ := split(other, ofMasterKey, Split{2, 2})
		for name, wrong := range map[string][]string{"foreign": {hex.EncodeToString(other)}, "foreign shares": foreignShares, "one": foreignShares[:1], "none": nil, "nonsense": {"canary"}} {
			if _, err := New(cfg).Recover(wrong); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := os.Stat(cfg.PlainFile); err == nil {
			t.Error("a refused copy has left a plain file")
		}
		if as.Threshold > 0 {
			texts = texts[as.Shares-as.Threshold:]
		}
		cfg.Kind = ""
		if replaced, err := New(cfg).Recover(texts); err != nil || replaced != cfg.SealedFile+".replaced" {
			t.Fatalf("%s, %v", replaced, err)
		}
		wantRoot(t, cfg, root)
		if _, err := New(cfg).Recover(texts); err != nil { // an interrupted one is repeated
			t.Error(err)
		}
	}
}

// TestTwoKeys: a plain file beside the sealed one of another master key is neither sealed over nor shredded.
func TestTwoKeys(t *testing.T) {
	cfg := installation(t, KindFile)
	cfg.File = filepath.Join(t.TempDir(), "key")
	root := sealIt(t, cfg, nil)
	if _, err := keyring.Create(cfg.PlainFile); err != nil {
		t.Fatal(err)
	}
	if err := New(cfg).Seal(t.Context(), Split{}, nil); !Is(err, "keysource.two_keys") {
		t.Errorf("%v", err)
	}
	c := New(cfg)
	if err := c.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Shred(t.Context()); !Is(err, "keysource.two_keys") {
		t.Errorf("%v", err)
	}
	wantRoot(t, cfg, root)
}

func TestConfig(t *testing.T) {
	good := Config{SealedFile: "/k/s", PlainFile: "/k/m"}
	for want, change := range map[string]func(*Config){
		"kind": func(c *Config) { c.Kind = "x" }, "sealed_file": func(c *Config) { c.SealedFile = "s" }, "file: must be an absolute": func(c *Config) { c.File = "k" },
		"another file": func(c *Config) { c.File = "/k/m" }, "file: must be set": func(c *Config) { c.Kind = KindFile }, "SLUICE_": func(c *Config) { c.Env = "SLUICE_KEY" },
		"env: must be set": func(c *Config) { c.Kind = KindEnv }, "share_files": func(c *Config) { c.ShareFiles = []string{"a"} }, "transit.key": func(c *Config) { c.Kind = KindTransit },
		"transit.timeout": func(c *Config) { c.Transit.Timeout = -1 }, "helper.command: must be set": func(c *Config) { c.Kind = KindHelper }, "helper.command: must begin": func(c *Config) { c.Helper.Command = []string{"x"} },
		"helper.timeout": func(c *Config) { c.Helper.Timeout = -1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
