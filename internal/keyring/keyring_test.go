package keyring_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/internal/keyring"
)

func TestCreateThenOpenGivesTheSameKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "master.key")
	a, err := keyring.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := keyring.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Derive("x"), b.Derive("x")) {
		t.Error("the key changed between openings")
	}
	if bytes.Equal(a.Derive("x"), a.Derive("y")) {
		t.Error("two labels share a key")
	}
	if _, err := keyring.Create(path); err == nil {
		t.Error("Create overwrote a master key")
	}
}

func TestOpenRefusesReadableAndDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"readable": {strings.Repeat("ab", 32), 0o644, "chmod 600"},
		"short":    {"abcd", 0o600, "64 hex digits"},
		"not hex":  {strings.Repeat("zz", 32), 0o600, "64 hex digits"},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(path)
			if err := os.WriteFile(path, []byte(tc.text), tc.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := keyring.Open(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMACSeparatesParts(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	if bytes.Equal(r.MAC("l", "ab", "c"), r.MAC("l", "a", "bc")) {
		t.Error("two lists of parts share a digest")
	}
}

// TestMACStream: how the last part is cut does not matter; the digest is that of MAC, and no text is copied for it.
func TestMACStream(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	for _, pieces := range [][]string{nil, {""}, {"a", "", "bc"}, {strings.Repeat("长", 4000), "x"}} {
		spell := func(piece func(string)) {
			for _, p := range pieces {
				piece(p)
			}
		}
		if got, want := r.MACStream("l", spell, "tenant"), r.MAC("l", "tenant", strings.Join(pieces, "")); !bytes.Equal(got, want) {
			t.Errorf("%d pieces: %x, want %x", len(pieces), got, want)
		}
		if n := testing.AllocsPerRun(100, func() { r.MACStream("l", spell, "tenant") }); n > 6 {
			t.Errorf("%v allocations for %d pieces", n, len(pieces))
		}
	}
}

// TestBeginTakesTheRestInPieces: cuts do not matter, and what was begun with stays apart from what follows.
func TestBeginTakesTheRestInPieces(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	code := func(begun string, pieces ...string) string {
		m := r.Begin("l", begun)
		for _, p := range pieces {
			_, _ = m.Write([]byte(p))
		}
		return string(m.Sum(nil))
	}
	if code("a", "bcd") != code("a", "b", "", "cd") {
		t.Error("cuts change the code")
	}
	if code("a", "bc") == code("ab", "c") {
		t.Error("two texts share a code")
	}
	if code("a") != string(r.MAC("l", "a")) {
		t.Error("the parts are taken in otherwise than MAC does")
	}
}

// The digests of records and pseudonyms that exist stay what they are: HMAC-SHA256 under the derived key, whatever was digested before.
func TestMACIsTheDigestOfItsDefinition(t *testing.T) {
	r := keyring.FromBytes(bytes.Repeat([]byte{7}, 32))
	for _, parts := range [][]string{{}, {""}, {"a"}, {"a", ""}, {strings.Repeat("x", 255), strings.Repeat("长", 300)}, {"tenant", strings.Repeat("y", 5000)}} {
		for _, label := range []string{"l/v1", "m/v1", "l/v1"} {
			m := hmac.New(sha256.New, r.Derive(label))
			for _, p := range parts {
				var n [8]byte
				binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
				m.Write(n[:])
				m.Write([]byte(p))
			}
			if want, got := m.Sum(nil), r.MAC(label, parts...); !bytes.Equal(got, want) {
				t.Errorf("%s of %d parts: %x, want %x", label, len(parts), got, want)
			}
		}
	}
	want := "15ecabb4640443140b9d748d8785b22758c49d5034f951a821cd170a19b1a48b"
	if got := fmt.Sprintf("%x", r.MAC("audit/content/v1", "tenant", "text")); got != want {
		t.Errorf("the digest of a release before is %s, now %s", want, got)
	}
}

func TestMACsAtTheSameTimeAreRight(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	var wg sync.WaitGroup
	for i := range 8 {
		part := strings.Repeat(fmt.Sprint(i), 100+i)
		want := keyring.FromBytes(make([]byte, 32)).MAC("l", part)
		wg.Go(func() {
			for range 200 {
				if !bytes.Equal(r.MAC("l", part), want) {
					t.Errorf("the digest of %d is another's", i)
				}
			}
		})
	}
	wg.Wait()
}

func TestMACKeepsItsKeys(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	text := strings.Repeat("prompt ", 100)
	r.MAC("l", text)
	if n := testing.AllocsPerRun(100, func() { r.MAC("l", "tenant", text) }); n > 3 { // the sum, and now and then a state that the collector took
		t.Errorf("%v allocations a digest", n)
	}
}

func BenchmarkMAC(b *testing.B) {
	r := keyring.FromBytes(make([]byte, 32))
	text := strings.Repeat("prompt ", 16)
	b.ReportAllocs()
	for b.Loop() {
		r.MAC("l", "tenant", text)
	}
}

func TestSecretNeverShows(t *testing.T) {
	const canary = "hunter2-canary"
	s := struct{ Password keyring.Secret }{canary}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", slog.Any("password", s.Password), slog.Any("all", s))
	js, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s.Password), string(js), log.String()} {
		if strings.Contains(out, canary) {
			t.Errorf("the secret shows in %s", out)
		}
	}
	if s.Password.Reveal() != canary {
		t.Error("Reveal lost the text")
	}
}
