//go:build browser

package server_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/web"
)

// TestBrowserSignIn signs people in at a real provider in a real Chromium. It needs what TestBrowser does, but no model.
func TestBrowserSignIn(t *testing.T) {
	chromium := os.Getenv("SLUICE_TEST_CHROMIUM")
	if chromium == "" {
		chromium, _ = exec.LookPath("chromium")
	}
	if chromium == "" || !web.Included() {
		if dbtest.Required("chromium") {
			t.Fatal("chromium and the built console (-tags console) are required (SLUICE_REQUIRE)")
		}
		t.Skip("chromium or the console is missing")
	}
	p := newOIDCProvider(t)
	in := start(t, setup{overrides: map[string]any{"console": true}, extra: oidcConfig(p.issuer)})
	base := strings.TrimSuffix(in.started.BaseURL, "/v1")
	p.run(base, base)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "run", "--silent", "e2e:provider")
	cmd.Dir = "../web"
	cmd.Env = append(os.Environ(), "CONSOLE_URL="+in.started.ConsoleURL, "CHROMIUM="+chromium, "PROVIDER="+p.issuer)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the browser test failed: %v", err)
	}
	in.wantSignIn("no_role", "")
}
