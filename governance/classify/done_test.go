package classify

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestScannersThatAreUsedAgain: what a scanner read before, whole or not to its end, changes nothing of what it finds, and stays nowhere.
func TestScannersThatAreUsedAgain(t *testing.T) {
	set := New(Classes()...)
	texts := []string{
		"我叫王小明，电话13800138000，住在北京市海淀区中关村大街27号院3号楼1201室", "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + strings.Repeat("A", 300),
		"微信号 wxid_abcdef123456，微信 ", "password=hunter2hunter2 and more", "card 4111 1111 1111 11", strings.Repeat("普通的文字，", 2000) + "张三丰",
	}
	fresh := func(text string) []Segment { return (&Scanner{set: set}).Write(text) }
	for _, before := range texts {
		for _, text := range texts {
			used := set.Scanner()
			used.Write(before)
			used.Done()
			for at, c := range used.w.cells[:cap(used.w.cells)] {
				if c != (cell{}) {
					t.Fatalf("cell %d of a text is kept", at)
				}
			}
			if used.buf != "" || !reflect.DeepEqual(used.norm, normaliser{}) || used.w.digit != [maxDigits]byte{} || used.w.spelt != [maxSpelled]byte{} {
				t.Fatal("a text is kept")
			}
			again := set.Scanner() // most times, the same
			got, want := slices.Clone(again.Write(text)), fresh(text)
			again.Done()
			for at, s := range again.out[:cap(again.out)] {
				if s.Text != "" || s.Value != "" {
					t.Fatalf("segment %d of a text is kept", at)
				}
			}
			if !slices.EqualFunc(got, want, func(a, b Segment) bool {
				return a.Class == b.Class && a.Text == b.Text && a.Value == b.Value && a.Start == b.Start && a.Why == b.Why && slices.Equal(a.Also, b.Also)
			}) {
				t.Errorf("after %.20q, %.20q: %d segments, want %d", before, text, len(got), len(want))
			}
		}
	}
}

// TestScannerThatIsDone finds nothing any more: it fails.
func TestScannerThatIsDone(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a scanner that was given back took text")
		}
	}()
	s := &Scanner{set: New()}
	s.Done()
	s.Write("13800138000")
}

// TestLongTextsLeaveNoRoom: a scanner that has read a long text is no heavier for the short ones of others.
func TestLongTextsLeaveNoRoom(t *testing.T) {
	set := New(Classes()...)
	sc := set.Scanner()
	sc.Write(strings.Repeat("电话13800138000，", 5000))
	sc.Close()
	sc.Done()
	if n := max(cap(sc.out), cap(sc.found), cap(sc.here.found)); n > 256 {
		t.Errorf("room for %d segments is kept", n)
	}
}
