package native

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine"
)

// runOutput pushes tokens and returns the text, the pieces and the log-probabilities that came out.
func runOutput(stops []string, tokens [][]byte) (text string, stopped bool, shown []string, logprobs []string) {
	o := output{stops: stops}
	add := func(p textPart) {
		text += p.text
		shown = append(shown, p.text)
		for _, lp := range p.logprobs {
			logprobs = append(logprobs, lp.Token)
		}
		stopped = stopped || p.stopped > 0
	}
	for _, tok := range tokens {
		if add(o.push(tok, &engine.TokenLogprob{Token: string(tok)}, true)); stopped {
			return text, stopped, shown, logprobs
		}
	}
	add(o.close(false))
	return text, stopped, shown, logprobs
}

// TestOutputCutByALimit: what a limit cuts off mid-character is dropped, what waited for a stop string is not.
func TestOutputCutByALimit(t *testing.T) {
	o := output{stops: []string{"END"}}
	p := o.push([]byte("E\xe9\x95"), nil, true)
	if last := o.close(true); p.text+last.text != "E" || last.stopped > 0 {
		t.Errorf("%q, then %q", p.text, last.text)
	}
}

func bytesOf(tokens ...string) [][]byte {
	out := make([][]byte, len(tokens))
	for i, t := range tokens {
		out[i] = []byte(t)
	}
	return out
}

func TestOutput(t *testing.T) {
	for _, c := range []struct {
		name          string
		stops, tokens []string
		shown         []string
		stopped       bool
		logprobs      string
	}{
		{"no stops", nil, []string{"a", "bc"}, []string{"a", "bc", ""}, false, "a bc"},
		{"across tokens", []string{"END"}, []string{"x E", "N", "D y"}, []string{"x ", "", ""}, true, "x E"},
		{"false alarm", []string{"END"}, []string{"E", "N", "Q"}, []string{"", "", "ENQ", ""}, false, "E N Q"},
		{"held to the end", []string{"END"}, []string{"a", "EN"}, []string{"a", "", "EN"}, false, "a EN"},
		{"only the beginning is held", []string{"\n\n"}, []string{"a\n", "b\n", "\n"}, []string{"a", "\nb", ""}, true, "a\n b\n"},
		{"overlap", []string{"aab"}, []string{"a", "a", "a", "b"}, []string{"", "", "a", ""}, true, "a"},
		{"complete first wins", []string{"abcd", "bc"}, []string{"xabcd"}, []string{"xa"}, true, "xabcd"},
		{"same end, longer wins", []string{"c", "bc"}, []string{"abcd"}, []string{"a"}, true, "abcd"},
		{"inside one token", []string{"."}, []string{"one. two."}, []string{"one"}, true, "one. two."},
		{"at the start", []string{"a"}, []string{"abc"}, []string{""}, true, ""},
		{"half a character", nil, []string{"\xe9\x95", "\xbf"}, []string{"", "长", ""}, false, "\xe9\x95 \xbf"},
		{"never whole", nil, []string{"a", "\xe9\x95"}, []string{"a", "", "\uFFFD\uFFFD"}, false, "a \xe9\x95"},
		{"stop in characters", []string{"。"}, []string{"好\xe3\x80", "\x82x"}, []string{"好", ""}, true, "好\xe3\x80"},
	} {
		_, stopped, shown, logprobs := runOutput(c.stops, bytesOf(c.tokens...))
		if fmt.Sprintf("%q", shown) != fmt.Sprintf("%q", c.shown) || stopped != c.stopped || strings.Join(logprobs, " ") != c.logprobs {
			t.Errorf("%s: shown %q (stopped %v), want %q; log-probabilities %q, want %q", c.name, shown, stopped, c.shown, logprobs, c.logprobs)
		}
	}
}

// Any way of cutting a text into tokens gives the same result, nothing is lost, and no more than a stop string's beginning waits.
func FuzzOutput(f *testing.F) {
	f.Add("hello END world", "END", "o w", uint64(1))
	f.Add("aaaab", "aab", "ab", uint64(2))
	f.Add("长城。很长", "。", "很", uint64(3))
	f.Add("a\xffb\xe9\x95", "b", "\uFFFD", uint64(4))
	f.Fuzz(func(t *testing.T, text, stop1, stop2 string, seed uint64) {
		if !utf8.ValidString(stop1) || !utf8.ValidString(stop2) || stop1 == "" || stop2 == "" || len(stop1)+len(stop2) > 64 {
			t.Skip()
		}
		stops := []string{stop1, stop2}
		want, wantStopped, _, _ := runOutput(stops, bytesOf(strings.Split(text, "")...))
		if strings.Contains(want, stop1) || strings.Contains(want, stop2) {
			t.Fatalf("a stop string came through: %q", want)
		}
		if !wantStopped && utf8.ValidString(text) && want != text {
			t.Fatalf("got %q", want)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		var tokens [][]byte
		for rest := []byte(text); len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 5))
			tokens, rest = append(tokens, rest[:n]), rest[n:]
		}
		got, stopped, shown, logprobs := runOutput(stops, tokens)
		if got != want || stopped != wantStopped {
			t.Fatalf("tokens %q: got %q (%v), want %q (%v)", tokens, got, stopped, want, wantStopped)
		}
		for _, s := range shown {
			if !utf8.ValidString(s) {
				t.Fatalf("%q is not UTF-8", s)
			}
		}
		if !stopped && strings.Join(logprobs, "") != text {
			t.Fatalf("log-probabilities spell %q", logprobs)
		}
	})
}

// TestWhichStopString: the one that is complete first, as the request lists them.
func TestWhichStopString(t *testing.T) {
	for text, want := range map[string]int{"一二三": 3, "一二丙": 2, "二三": 0, "xy": 1} {
		o := output{stops: []string{"y", "二丙", "二三", "", "三"}}
		if text == "二三" {
			o.stops = []string{"", "甲"}
		}
		got := 0
		for _, tok := range bytesOf(text) {
			if p := o.push(tok, nil, true); p.stopped > 0 {
				got = p.stopped
				break
			}
		}
		if got != want {
			t.Errorf("%q stopped by %d, want %d", text, got, want)
		}
	}
}
