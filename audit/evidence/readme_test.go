package evidence

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestByHand follows the instructions in the bundle with Python and openssl, which know nothing of this code.
func TestByHand(t *testing.T) {
	dbtest.Programs(t, "python3", "openssl")
	l := newLog(t, 77)
	l.signer = newSigner(t, 1, 2)
	cfg := l.config(t)
	cfg.By, cfg.Tenant, cfg.From, cfg.To = "someone\n# check.py\x1b[1m", "other", 3e6, 60e6
	p := unzip(t, l.bundle(t, cfg))
	key := strings.Fields(l.signer.Key())[1]
	check := func(dir string) (string, error) {
		text := string(p.get(readmeName))
		script := regexp.MustCompile(`(?ms)^# check\.py.*?^# end$`).FindString(text)
		must(t, os.WriteFile(filepath.Join(dir, "check.py"), []byte(script), 0o600))
		for _, x := range p {
			must(t, os.WriteFile(filepath.Join(dir, x.name), x.data, 0o600))
		}
		cmd := exec.CommandContext(t.Context(), "python3", "check.py", key)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := check(t.TempDir())
	if err != nil || out != "19 records are in the log log.example/audit of 77 records\n" {
		t.Fatalf("%s%v", out, err)
	}
	text := string(p.get(readmeName))
	for _, want := range []string{"log.example/audit", "tenant     other", "1970-01-01T00:00:03.000000Z", "by someone # check.py[1m\n", key, "证据"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(text, "{{") {
		t.Error("the text has places that were not filled")
	}
	good := clone(p)
	for name, change := range map[string]func(){
		"record": func() {
			p.set(recordsName, replaced(t, p.get(recordsName), "req-5", "req-6"))
			p.seal(t, l.signer, nil)
		},
		"table":       func() { p.set(csvName, replaced(t, p.get(csvName), "req-5", "req-6")) },
		"manifest":    func() { p.set(manifestName, append(p.get(manifestName), ' ')) },
		"another key": func() { p.seal(t, newSigner(t, 3), nil) },
		"checkpoint": func() {
			p.set(checkpointName, replaced(t, p.get(checkpointName), "\n77\n", "\n78\n"))
			p.seal(t, l.signer, nil)
		},
		"hash of a row": func() { p.get(treeName)[9] ^= 1; p.seal(t, l.signer, nil) },
	} {
		p = clone(good)
		change()
		if out, err := check(t.TempDir()); err == nil {
			t.Errorf("%s: the change went unnoticed: %s", name, out)
		}
	}
}
