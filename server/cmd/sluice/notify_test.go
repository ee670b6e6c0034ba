package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNotifyTest: the command says of each channel what became of the message, and shows no address.
func TestNotifyTest(t *testing.T) {
	taken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer taken.Close()
	refused := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"errcode":310000,"errmsg":"keywords not in content"}`))
	}))
	defer refused.Close()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	text := "notify:\n  channels:\n    - {name: soc, kind: webhook, url: '" + taken.URL + "/canary'}\n    - {name: duty, kind: dingtalk, url: '" + refused.URL + "/send?access_token=canary'}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	notify := func(words ...string) result {
		return runCommand(t.Context(), nil, "", append([]string{"--config", file, "notify", "test"}, words...)...)
	}
	all := notify()
	all.wants(t, exitFindings, "soc (webhook): delivered in", "duty (dingtalk): NOT delivered", "310000", "keywords not in content")
	if strings.Contains(all.out+all.err, "canary") {
		t.Errorf("it shows an address: %s", all.out)
	}
	notify("soc").wants(t, exitOK, "delivered")
	notify("nobody").wants(t, exitFailed, "notify.channels")
	notify("a", "b").wants(t, exitUsage)
	file = filepath.Join(t.TempDir(), "none.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	notify().wants(t, exitOK, "no channel is configured")
}
