package keysource

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
)

// transitService is a Transit engine after its published API: paths, methods, header, bodies, statuses and texts of errors. It has one key.
type transitService struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	token    string
	may      []string // the acts that the token's policy allows
	keys     []cipher.AEAD
	sealed   bool
	answer   func(w http.ResponseWriter) // instead of its own
	asked    []string
	hang     chan struct{}
	decrypts int
}

const transitToken = "hvs.canary-token-4711"

func newTransitService(t *testing.T) *transitService {
	s := &transitService{t: t, token: transitToken, may: []string{"encrypt", "decrypt", "rewrap"}, hang: make(chan struct{})}
	s.rotate()
	s.server = httptest.NewUnstartedServer(s)
	s.server.Config.ErrorLog = discardLog()
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	t.Cleanup(func() { close(s.hang) })
	return s
}

// rotate is POST /v1/transit/keys/sluice/rotate.
func (s *transitService) rotate() {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		s.t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		s.t.Fatal(err)
	}
	s.keys = append(s.keys, aead)
}

func (s *transitService) ca() string {
	path := filepath.Join(s.t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *transitService) config() Transit {
	return Transit{Address: s.server.URL, Key: "sluice", Token: keyring.Inline(transitToken), CAFile: s.ca(), Timeout: 5 * time.Second}
}

func (s *transitService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	refuse := func(status int, texts ...string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": append([]string{}, texts...)})
	}
	if s.answer != nil {
		s.answer(w)
		return
	}
	act, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/transit/"), "/")
	switch {
	case s.sealed:
		refuse(http.StatusServiceUnavailable, "Vault is sealed")
		return
	case r.Header.Get("X-Vault-Token") != s.token:
		refuse(http.StatusForbidden, "permission denied", "invalid token")
		return
	case !strings.HasPrefix(r.URL.Path, "/v1/transit/"):
		refuse(http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", strings.TrimPrefix(r.URL.Path, "/v1/")))
		return
	case !slices.Contains(s.may, act):
		refuse(http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
		return
	case r.Method != http.MethodPost && r.Method != http.MethodPut:
		refuse(http.StatusMethodNotAllowed, "unsupported operation")
		return
	case key != "sluice":
		refuse(http.StatusBadRequest, "encryption key not found")
		return
	}
	var in struct{ Plaintext, Ciphertext string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(http.StatusBadRequest, "failed to parse JSON input: "+err.Error())
		return
	}
	plain, err := base64.StdEncoding.DecodeString(in.Plaintext)
	if act != "encrypt" {
		plain, err = s.decrypt(in.Ciphertext)
	}
	if err != nil {
		refuse(http.StatusBadRequest, err.Error())
		return
	}
	data := map[string]any{}
	if act == "decrypt" {
		s.decrypts++
		data["plaintext"] = base64.StdEncoding.EncodeToString(plain)
	} else {
		newest := s.keys[len(s.keys)-1]
		nonce := make([]byte, newest.NonceSize())
		_, _ = rand.Read(nonce)
		data["ciphertext"] = fmt.Sprintf("vault:v%d:%s", len(s.keys), base64.StdEncoding.EncodeToString(newest.Seal(nonce, nonce, plain, nil)))
		data["key_version"] = len(s.keys)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"request_id": "7f1c2c3e-0000-0000-0000-000000000000", "lease_id": "", "renewable": false, "lease_duration": 0, "data": data,
		"wrap_info": nil, "warnings": nil, "auth": nil,
	})
}

func (s *transitService) decrypt(text string) ([]byte, error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[0] != "vault" {
		return nil, fmt.Errorf("invalid ciphertext: no prefix")
	}
	version, err := strconv.Atoi(strings.TrimPrefix(parts[1], "v"))
	if err != nil || version < 1 || version > len(s.keys) {
		return nil, fmt.Errorf("invalid ciphertext: version is too new")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	aead := s.keys[version-1]
	if err != nil || len(raw) < aead.NonceSize() {
		return nil, fmt.Errorf("invalid ciphertext: could not decode base64")
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], nil)
	if err != nil {
		return nil, fmt.Errorf("cipher: message authentication failed")
	}
	return plain, nil
}

// TestTransitFailures: whatever the service or the way to it does, the start is refused with the cause and a remedy in both languages, and the
// token is never shown.
func TestTransitFailures(t *testing.T) {
	for name, c := range map[string]struct {
		id    message.ID
		spoil func(s *transitService, cfg *Config)
	}{
		"sealed":                 {"keysource.transit_sealed", func(s *transitService, _ *Config) { s.sealed = true }},
		"token of somebody else": {"keysource.transit_denied", func(s *transitService, _ *Config) { s.token = "hvs.other" }},
		"policy without decrypt": {"keysource.transit_denied", func(s *transitService, _ *Config) { s.may = []string{"encrypt"} }},
		"the key was replaced":   {"keysource.transit_refused", func(s *transitService, _ *Config) { s.keys = nil; s.rotate() }},
		"no such key":            {"keysource.transit_refused", func(_ *transitService, c *Config) { c.Transit.Key = "other" }},
		"no such mount":          {"keysource.transit_not_found", func(_ *transitService, c *Config) { c.Transit.Mount = "elsewhere" }},
		"slow": {"keysource.transit_slow", func(s *transitService, c *Config) {
			c.Transit.Timeout = 50 * time.Millisecond
			s.answer = func(http.ResponseWriter) { <-s.hang }
		}},
		"certificate of a stranger": {"keysource.transit_certificate", func(_ *transitService, c *Config) { c.Transit.CAFile = "" }},
		"no certificate":            {"keysource.transit_ca", func(_ *transitService, c *Config) { c.Transit.CAFile = c.SealedFile }},
		"not running":               {"keysource.transit_unreached", func(s *transitService, _ *Config) { s.server.Close() }},
		"a redirect": {"keysource.transit_status", func(s *transitService, _ *Config) {
			s.answer = func(w http.ResponseWriter) {
				w.Header().Set("Location", "https://127.0.0.1:1/v1/transit/decrypt/sluice")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		}},
		"echoes the token": {"keysource.transit_status", func(s *transitService, _ *Config) {
			s.answer = func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = fmt.Fprintf(w, `{"errors":["1 error occurred:\n\t* token %s is\u0007 odd %s"]}`, transitToken, strings.Repeat("x", 1000))
			}
		}},
		"not JSON": {"keysource.transit_answer", func(s *transitService, _ *Config) {
			s.answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }
		}},
		"endless": {"keysource.transit_answer", func(s *transitService, _ *Config) {
			s.answer = func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxFile+2)) }
		}},
		"no base64": {"keysource.transit_answer", func(s *transitService, _ *Config) { s.answer = answerPlaintext("%%") }},
		"another master key": {"keysource.other_key", func(s *transitService, _ *Config) {
			s.answer = answerPlaintext(base64.StdEncoding.EncodeToString(make([]byte, 32)))
		}},
		"half a master key": {"keysource.other_key", func(s *transitService, _ *Config) {
			s.answer = answerPlaintext(base64.StdEncoding.EncodeToString(make([]byte, 16)))
		}},
		"nothing configured": {"keysource.not_configured", func(_ *transitService, c *Config) { c.Transit.Address = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTransitService(t)
			cfg := installation(t, KindTransit)
			cfg.Transit = s.config()
			sealIt(t, cfg, nil)
			c.spoil(s, &cfg)
			_, err := New(cfg).Open(t.Context())
			if !Is(err, c.id) {
				t.Fatalf("%v", err)
			}
			for _, text := range []string{err.Error(), inChinese(err), fmt.Sprintf("%+v %#v", err, err), fmt.Sprintf("%+v", cfg)} {
				if strings.Contains(text, "canary") || strings.ContainsAny(text, "\n\a") || len(text) > 2500 {
					t.Errorf("shown: %s", text)
				}
			}
		})
	}
}

func answerPlaintext(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = fmt.Fprintf(w, `{"data":{"plaintext":%q}}`, text) }
}

// TestTransitRotation: a rotated key is taken over by rewrap, and the version before may be destroyed then.
func TestTransitRotation(t *testing.T) {
	s := newTransitService(t)
	cfg := installation(t, KindTransit)
	cfg.Transit = s.config()
	root := sealIt(t, cfg, nil)
	if err := New(cfg).Reseal(t.Context(), New(cfg), Split{}, nil); !Is(err, "keysource.transit_not_rotated") {
		t.Errorf("without a rotation: %v", err)
	}
	s.rotate()
	wantRoot(t, cfg, root)
	s.asked = nil
	if err := New(cfg).Reseal(t.Context(), New(cfg), Split{}, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.asked, "POST /v1/transit/rewrap/sluice") || slices.Contains(s.asked, "POST /v1/transit/encrypt/sluice") {
		t.Errorf("asked %q", s.asked)
	}
	st, err := New(cfg).Status()
	if err != nil || st.KeyID != "transit/sluice:v2" {
		t.Errorf("%+v, %v", st, err)
	}
	s.keys[0] = s.keys[1] // the version before is gone
	wantRoot(t, cfg, root)
}

// TestTransitToAnother moves the master key to another service.
func TestTransitToAnother(t *testing.T) {
	a, b := newTransitService(t), newTransitService(t)
	cfg := installation(t, KindTransit)
	cfg.Transit = a.config()
	root := sealIt(t, cfg, nil)
	moved := cfg
	moved.Transit = b.config()
	if err := New(moved).Reseal(t.Context(), New(cfg), Split{}, nil); err != nil {
		t.Fatal(err)
	}
	a.server.Close()
	wantRoot(t, moved, root)
}

// TestTransitAddresses: the master key goes over TLS, or stays on this machine, and names do not lead elsewhere.
func TestTransitAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://bao.example:8200": true, "http://127.0.0.1:8200": true, "http://localhost:8200/": true, "http://[::1]:8200": true,
		"http://bao.example:8200": false, "http://127.0.0.1.example": false, "https://": false, "https://u:p@bao.example": false, "ftp://bao.example": false, "bao.example": false, "https://bao.example?a=b": false,
	} {
		if err := (Transit{Address: address}).validate(false); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	for name, ok := range map[string]bool{"transit": true, "team-a/transit": true, "a.b": true, "../sys": false, "a/../b": false, "a?b": false, "a b": false, ".": false, "a//b": false} {
		if err := (Transit{Mount: name}).validate(false); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTransitMustUnwrap: a token that may only encrypt would lock a new installation out at its second start, so that the first one is refused.
func TestTransitMustUnwrap(t *testing.T) {
	s := newTransitService(t)
	s.may = []string{"encrypt"}
	cfg := installation(t, KindTransit)
	cfg.Transit = s.config()
	if err := os.Remove(cfg.PlainFile); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg).Create(t.Context()); !Is(err, "keysource.transit_denied") {
		t.Errorf("%v", err)
	}
	if _, err := New(cfg).Status(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was left: %v", err)
	}
}
