package lexical

import (
	"testing"
)

// TestChangesDoNotWaitForTexts: what takes documents away does not wait until the texts of a large addition are analysed. A right that is taken away waits
// for it elsewhere, and whoever brings a large document must not be able to put that off.
func TestChangesDoNotWaitForTexts(t *testing.T) {
	x := New()
	if err := x.Add(Document{1, "old words"}); err != nil {
		t.Fatal(err)
	}
	asked := 0
	x.analysed = func() {
		asked++
		x.analysed = nil
		if !x.change.TryLock() { // a removal would wait for it
			t.Fatal("an addition holds the lock of changes while it analyses texts")
		}
		x.change.Unlock()
		if err := x.Remove(1); err != nil {
			t.Fatal(err)
		}
		if x.Len() != 0 {
			t.Errorf("%d documents are left before the addition is done", x.Len())
		}
		if err := x.Add(Document{2, "other words"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Add(Document{2, "new words"}, Document{3, "more words"}); err != nil {
		t.Fatal(err)
	}
	if asked != 1 || x.Len() != 2 {
		t.Errorf("asked %d times; %d documents", asked, x.Len())
	}
}
