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
	fresh := func(text string) []Segment {
		sc := newScanner()
		sc.set = set
		return sc.Write(text)
	}
	for _, before := range texts {
		for _, text := range texts {
			used := set.Scanner()
			used.Write(before)
			used.Done()
			if used.buf != "" || used.w.End() != 0 {
				t.Fatal("a text is kept")
			}
			for _, part := range []any{used.numbers, used.hosts, used.accounts, used.people, used.companies, used.addresses, used.secrets} {
				if kept := remembered(reflect.ValueOf(part)); kept != "" {
					t.Fatalf("%T keeps %s of a text", part, kept)
				}
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
	s := newScanner()
	s.set = New()
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
	if n := max(cap(sc.out), cap(sc.found), cap(sc.here.Found)); n > 256 {
		t.Errorf("room for %d segments is kept", n)
	}
}

// remembered names what a detector holds of a text: anything but pointers.
func remembered(v reflect.Value) string {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Pointer:
		case reflect.Struct:
			if in := remembered(f); in != "" {
				return v.Type().Field(i).Name + "." + in
			}
		default:
			if !f.IsZero() {
				return v.Type().Field(i).Name
			}
		}
	}
	return ""
}
