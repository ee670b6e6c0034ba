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

// TestBrowserFactors enrols and uses second factors in a real Chromium with its virtual security key, at the address that a trial on one's own machine
// has. It needs what TestBrowser does, but no model.
func TestBrowserFactors(t *testing.T) {
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
	in := start(t, setup{overrides: map[string]any{"console": true, "listen": freeAddress(t)}})
	in.session() // the password of the first start is changed
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "run", "--silent", "e2e:factors")
	cmd.Dir = "../web"
	cmd.Env = append(os.Environ(), "CONSOLE_URL="+strings.Replace(in.started.ConsoleURL, "127.0.0.1", "localhost", 1), "ADMIN_USER="+in.started.Welcome.AdminUser,
		"ADMIN_PASSWORD="+in.started.Welcome.AdminPassword.Reveal(), "CHROMIUM="+chromium)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the browser test failed: %v", err)
	}
	eventually(t, "a record that the key was shown", func() bool {
		return strings.Contains(string(in.send("GET", "/api/v1/audit/records?action=admin.showSecondFactor&stage=outcome", in.session(), nil).body), `"second_factor":"webauthn"`)
	})
}
