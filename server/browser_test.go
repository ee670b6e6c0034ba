//go:build browser

package server_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/web"
	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

// TestBrowser drives the embedded console in a real Chromium against a real server with the real model, in both languages: page by page, then as
// three people with roles of their own. Every page is held against the rules of axe. It needs the tags browser and console, a built console,
// npm's packages in web/node_modules, bin/sluice-verify and the Temporal CLI.
func TestBrowser(t *testing.T) {
	for name, script := range map[string]string{"pages": "e2e", "people": "e2e:walks"} {
		t.Run(name, func(t *testing.T) { inBrowser(t, script) })
	}
}

// inBrowser runs a script of web/package.json against a new server.
func inBrowser(t *testing.T, script string) {
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
	verify, err := filepath.Abs("../bin/sluice-verify")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(verify); err != nil {
		t.Fatalf("run make build: %v", err)
	}
	temporal := devtest.Binary(t)
	in := startNative(t, map[string]any{"console": true, "workflows.enabled": true, "workflows.embedded.binary": temporal})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	in.session() // the password of the first start is changed
	cmd := exec.CommandContext(ctx, "npm", "run", "--silent", script)
	cmd.Dir = "../web"
	cmd.Env = append(os.Environ(), "CONSOLE_URL="+in.started.ConsoleURL, "ADMIN_USER="+in.started.Welcome.AdminUser,
		"ADMIN_PASSWORD="+in.started.Welcome.AdminPassword.Reveal(), "CHROMIUM="+chromium, "VERIFY="+verify, "LOG_KEY="+in.logKey())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the browser test failed: %v", err)
	}
}
