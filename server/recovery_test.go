package server_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/keysource"
)

// TestRecoveryIsRecorded: who has made the master key out of a recovery copy is in the audit log from the next start on, once.
func TestRecoveryIsRecorded(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.session()
	copied, err := keysource.New(in.cfg.KeySource).Export(t.Context(), keysource.Split{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(in.cfg.MasterKeyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := keysource.New(in.cfg.KeySource).Recover(copied); err != nil {
		t.Fatal(err)
	}
	records := func() (n int, text string) {
		in.eachRecord("action=keys.recover", func(_ auditEvent, whole json.RawMessage) {
			n++
			text += string(whole)
		})
		return n, text
	}
	for range 2 {
		in.restart()
		eventually(t, "the record of the recovery", func() bool { n, _ := records(); return n > 0 })
		if n, text := records(); n != 1 || !strings.Contains(text, `"kind":"system"`) || !strings.Contains(text, `"at":"20`) || strings.Contains(text, copied[0]) {
			t.Errorf("%d records: %s", n, text)
		}
	}
	if _, found, err := keysource.New(in.cfg.KeySource).Recovery(); found || err != nil {
		t.Errorf("the note is still there: %v", err)
	}
}
