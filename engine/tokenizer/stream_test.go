package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// whole is what any way of cutting b must give.
func whole(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

func TestStreamHoldsOpenCharacters(t *testing.T) {
	var s Stream
	for _, step := range []struct{ in, want string }{
		{"a", "a"}, {"\xe4", ""}, {"\xb8", ""}, {"\xad!", "中!"}, {"\xf0\x9f", ""}, {"x", "\uFFFD\uFFFDx"}, {"", ""}, {"\xff", "\uFFFD"}, {"\xe4\xb8", ""},
	} {
		if got := s.Write([]byte(step.in)); got != step.want {
			t.Fatalf("Write(%q) = %q, want %q", step.in, got, step.want)
		}
	}
	if got := s.Close(); got != "\uFFFD\uFFFD" {
		t.Errorf("Close = %q", got)
	}
	if got := s.Write([]byte("ok")) + s.Close(); got != "ok" {
		t.Errorf("after Close: %q", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("a中é🚀"), uint64(0x5555))
	f.Add([]byte("\xf0\x9f\x9a\xe4\xb8\xf0\x90\xff\xed\xa0\x80\xc0\xaf"), uint64(0xffff))
	f.Fuzz(func(t *testing.T, b []byte, cuts uint64) {
		var s Stream
		var out strings.Builder
		start := 0
		for i := range b {
			if cuts>>(i%64)&1 == 0 {
				continue
			}
			out.WriteString(s.Write(b[start:i]))
			start = i
			if !utf8.ValidString(out.String()) {
				t.Fatalf("not valid UTF-8: %q", out.String())
			}
		}
		out.WriteString(s.Write(b[start:]))
		out.WriteString(s.Close())
		if out.String() != whole(b) {
			t.Fatalf("%q cut by %x: %q, want %q", b, cuts, out.String(), whole(b))
		}
	})
}
