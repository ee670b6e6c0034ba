package witness

import (
	"bytes"
	"testing"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// TestSuiteChanges: the log goes from Ed25519 to SM2 with an overlap, and the witness in its own time. Neither change interrupts what is
// witnessed, and the checkpoint of the moment is cosigned with the new key at once.
func TestSuiteChanges(t *testing.T) {
	old := newSigner(t, 1)
	next, err := checkpoint.NewSM2Signer(origin, bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	both, err := checkpoint.Join(old, next)
	if err != nil {
		t.Fatal(err)
	}
	l := newTestLog(t)
	dir := t.TempDir()
	var keys []string
	for i, step := range []struct {
		signs, known checkpoint.Signer
		sm2, grows   bool
	}{{old, old, false, true}, {both, old, false, true}, {both, both, true, false}, {next, next, true, true}} {
		l.set(func() { l.signer = step.signs })
		if step.grows {
			l.grow("a", 3)
		}
		cfg := l.config(dir)
		cfg.Verifier, cfg.SM2 = step.known.Verifier(), step.sm2
		w, _ := l.watch(cfg)
		mustPass(t, w)
		if got, by := l.cosignedBy(w.Key()); got.Size != l.tree.size || len(by) != 1 {
			t.Errorf("step %d: cosigned %v by %v", i, got, by)
		}
		posts := l.posts()
		mustPass(t, w)
		if l.posts() != posts {
			t.Errorf("step %d: what the log shows is handed back again", i)
		}
		if key, err := Key(cfg); err != nil || key != w.Key() {
			t.Errorf("step %d: %s, %v", i, key, err)
		}
		keys = append(keys, w.Key())
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if keys[0] != keys[1] || keys[1] == keys[2] || keys[2] != keys[3] {
		t.Errorf("the keys were %q", keys)
	}
	// Back to Ed25519 alone, when nobody announced it: the key of the log is not one that is known.
	cfg := l.config(dir)
	cfg.Verifier, cfg.SM2 = next.Verifier(), true
	l.set(func() { l.signer = old })
	w, _ := l.watch(cfg)
	l.signer = next // for the reading of what is remembered
	l.set(func() { l.note = l.signAs(old, l.tree.size, l.tree.root(l.tree.size)) })
	mustObject(t, l, w, kindKey)
}
