package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestKeysOfUpstreamsAreReplaced: an upstream's key and the operators' token are read from files, and what replaces them is used without a
// restart. A file that is gone changes nothing and is told. No secret shows anywhere.
func TestKeysOfUpstreamsAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, token := filepath.Join(dir, "key"), filepath.Join(dir, "token")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	put(key, "planted-key-1\n")
	put(token, "planted-token-of-operators-1")
	var mu sync.Mutex
	var got string
	in := start(t, setup{
		wire: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				got = r.Header.Get("Authorization")
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		},
		keyFile: key, overrides: map[string]any{"operations.token": "file:" + token},
	})
	sent := func() string {
		r := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}})
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		mu.Lock()
		defer mu.Unlock()
		return got
	}
	if sent() != "Bearer planted-key-1" {
		t.Errorf("the upstream got %q", got)
	}
	parts := func(token string) string { return string(in.send(http.MethodGet, "/readyz", token, nil).body) }
	if s := parts("planted-token-of-operators-1"); !strings.Contains(s, "audit") || strings.Contains(s, "secrets") {
		t.Errorf("the parts are %s", s)
	}

	put(key, "planted-key-2\n")
	put(token, "planted-token-of-operators-2")
	eventually(t, "the new key to be used", func() bool { return sent() == "Bearer planted-key-2" })
	eventually(t, "the new token to be used", func() bool { return strings.Contains(parts("planted-token-of-operators-2"), "audit") })
	if s := parts("planted-token-of-operators-1"); strings.Contains(s, "audit") {
		t.Errorf("the old token opens %s", s)
	}

	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss to be told", func() bool {
		s := parts("planted-token-of-operators-2")
		return strings.Contains(s, `"secrets"`) && strings.Contains(s, "degraded") && strings.Contains(s, `"ready":true`)
	})
	if sent() != "Bearer planted-key-2" {
		t.Errorf("without the file the upstream got %q", got)
	}
	put(key, "planted-key-3\n")
	eventually(t, "the next key to be used", func() bool { return sent() == "Bearer planted-key-3" })
	eventually(t, "the end of the trouble", func() bool { return !strings.Contains(parts("planted-token-of-operators-2"), `"secrets"`) })
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	log := in.logs.String()
	if strings.Contains(log, "planted") {
		t.Error("a secret is logged")
	}
	for _, told := range []string{"secrets were replaced", "engines.remote[0].api_key", "secrets cannot be read again"} {
		if !strings.Contains(log, told) {
			t.Errorf("the log does not tell %q", told)
		}
	}
}
