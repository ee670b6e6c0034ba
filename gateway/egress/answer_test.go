package egress

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// fakeRelease restores ⟦n⟧ as SECRETn and stops at the word FORBIDDEN.
type fakeRelease struct{ seen, open, masked string }

func (r *fakeRelease) Masked() string { return r.masked }
func (r *fakeRelease) Held() int      { return utf8.RuneCountInString(r.open) }

func (r *fakeRelease) Write(s string) (string, error) {
	r.seen += s
	r.open += s
	if strings.Contains(r.seen, "FORBIDDEN") {
		return "", fault.New(fault.CodeBlockedAnswer, "forbidden")
	}
	cut := len(r.open)
	if i := strings.LastIndex(r.open, "⟦"); i >= 0 && !strings.Contains(r.open[i:], "⟧") {
		cut = i
	}
	out := r.open[:cut]
	r.open, r.masked = r.open[cut:], out
	return restore(out), nil
}

func (r *fakeRelease) Close(...string) (string, error) {
	out := r.open
	r.open, r.masked = "", out
	return restore(out), nil
}

func restore(s string) string {
	for i := range 10 {
		s = strings.ReplaceAll(s, fmt.Sprintf("⟦%d⟧", i), fmt.Sprintf("SECRET%d", i))
	}
	return s
}

// fresh returns an answer over fakes. change may change what it is.
func fresh(change func(*Config)) *Answer {
	cfg := Config{
		Choices: 1, Model: "chat", Open: func(Kind) Release { return &fakeRelease{} }, StoreValues: func(context.Context) error { return nil },
		CallID: func(choice, index int) string { return fmt.Sprintf("call_%d_%d", choice, index) },
	}
	change(&cfg)
	return New(cfg)
}

// TestEveryTextOfAnEventIsReleased: an event leaves with nothing but what is put there, so a new field has to be looked at.
func TestEveryTextOfAnEventIsReleased(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[engine.Event]():        "Choice Text Reasoning Refusal Calls Logprobs Finish StoppedBy Usage Marking More Used",
		reflect.TypeFor[engine.ToolDelta]():    "Index ID Name Arguments",
		reflect.TypeFor[engine.TokenLogprob](): "Token Bytes Logprob Top",
	} {
		var have []string
		for i := range typ.NumField() {
			have = append(have, typ.Field(i).Name)
		}
		if !slices.Equal(have, strings.Fields(want)) {
			t.Errorf("%s has the fields %v, this test knows %s: does a new one bear text?", typ, have, want)
		}
	}
}

// bursting panics at the word PANIC.
type bursting struct{ fakeRelease }

func (b *bursting) Write(s string) (string, error) {
	if strings.Contains(s, "PANIC") {
		panic("SECRET1")
	}
	return b.fakeRelease.Write(s)
}

// TestNothingLeavesWithAnError: neither text nor note of an event that a rule stops, whose values cannot be stored, that breaks the engine's
// contract, or over which the rules panic; and of a whole answer nothing.
func TestNothingLeavesWithAnError(t *testing.T) {
	usage := &engine.Usage{}
	for name, c := range map[string]struct {
		bad  engine.Event
		keep bool
		code fault.Code
	}{
		"a rule":                  {bad: engine.Event{Text: "FORBIDDEN"}, code: fault.CodeBlockedAnswer},
		"a rule, of a name":       {bad: engine.Event{Calls: []engine.ToolDelta{{Name: "FORBIDDEN"}}}, code: fault.CodeBlockedAnswer},
		"a value not stored":      {bad: engine.Event{Text: "x"}, keep: true, code: fault.CodeVaultUnavailable},
		"a panic":                 {bad: engine.Event{Reasoning: "PANIC"}, code: fault.CodeInternal},
		"a choice too many":       {bad: engine.Event{Choice: 1, Text: "x"}, code: fault.CodeEngineUnavailable},
		"no choice":               {bad: engine.Event{Choice: -1, Text: "x"}, code: fault.CodeEngineUnavailable},
		"a call without a name":   {bad: engine.Event{Calls: []engine.ToolDelta{{Arguments: "{"}}}, code: fault.CodeEngineUnavailable},
		"a call before another":   {bad: engine.Event{Calls: []engine.ToolDelta{{Index: 1, Name: "f"}}}, code: fault.CodeEngineUnavailable},
		"a call before the first": {bad: engine.Event{Calls: []engine.ToolDelta{{Index: -1, Name: "f"}}}, code: fault.CodeEngineUnavailable},
	} {
		for _, whole := range []bool{false, true} {
			stored := 0
			a := fresh(func(cfg *Config) {
				cfg.RecordForm, cfg.Open = RecordClear, func(Kind) Release { return &bursting{} }
				cfg.StoreValues = func(context.Context) error {
					if stored++; c.keep && (whole || stored == 2) {
						return fault.New(fault.CodeVaultUnavailable)
					}
					return nil
				}
			})
			var err error
			sent := "good"
			if whole {
				var out []engine.Event
				sent = ""
				if out, err = a.Whole(t.Context(), []engine.Event{{Text: "good"}, c.bad, {Finish: engine.FinishStop}, {Usage: usage}}); out != nil {
					t.Errorf("%s: %+v", name, out)
				}
			} else {
				if _, _, err := a.Pass(t.Context(), engine.Event{Text: "good"}); err != nil {
					t.Fatal(err)
				}
				var out engine.Event
				var last bool
				if out, last, err = a.Pass(t.Context(), c.bad); !reflect.DeepEqual(out, engine.Event{}) || last {
					t.Errorf("%s: %+v", name, out)
				}
			}
			if !fault.Is(err, c.code) || strings.Contains(err.Error(), "SECRET1") || a.Tally().Recorded != sent {
				t.Errorf("%s, whole %v: %v, noted %q", name, whole, err, a.Tally().Recorded)
			}
		}
	}
	if _, err := fresh(func(*Config) {}).Whole(t.Context(), []engine.Event{{Text: "x", Finish: engine.FinishStop}}); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("without usage: %v", err)
	}
}

// TestRescue: what a panic says may be text of the answer; only the runtime is believed that it is not.
func TestRescue(t *testing.T) {
	for _, c := range []struct {
		panics any
		want   string
	}{{"SECRET1", "with a string"}, {errors.New("SECRET1"), "errors.errorString"}, {nil, "index out of range"}} {
		err := func() (err error) {
			defer recoverPanic(&err)
			if c.panics != nil {
				panic(c.panics)
			}
			var none []int
			return errors.New(string(rune(none[len(c.want)])))
		}()
		if !fault.Is(err, fault.CodeInternal) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET1") {
			t.Errorf("%v: %v", c.panics, err)
		}
	}
}

// TestNothingFollowsTheEndOfAChoice: text behind a finish would have passed no rule.
func TestNothingFollowsTheEndOfAChoice(t *testing.T) {
	for _, late := range []engine.Event{{Text: "late"}, {Finish: engine.FinishStop}, {Logprobs: []engine.TokenLogprob{{Token: "late"}}}} {
		out := fresh(func(c *Config) { c.Choices = 2 })
		if _, _, err := out.Pass(t.Context(), engine.Event{Text: "a", Finish: engine.FinishStop}); err != nil {
			t.Fatal(err)
		}
		if ev, _, err := out.Pass(t.Context(), late); !fault.Is(err, fault.CodeEngineUnavailable) || ev.Text != "" {
			t.Errorf("%+v: %+v, %v", late, ev, err)
		}
	}
}

// TestLogprobsWaitForTheirText: entries never run ahead of text that is held back, and stop once text has changed.
func TestLogprobsWaitForTheirText(t *testing.T) {
	lp := func(s string) []engine.TokenLogprob { return []engine.TokenLogprob{{Token: s, Bytes: []byte(s)}} }
	asked := func(c *Config) { c.Logprobs = true }
	e := fresh(asked)
	steps := []struct {
		in, out string
		finish  engine.Finish
		want    int
	}{
		{"abc", "ab", "", 0}, {"d", "cd", "", 2}, {"1234", "", "", 0}, {"5", "****", "", 0}, {"x", "x", "stop", 0},
	}
	for i, s := range steps {
		if got, err := e.logprobs(&engine.Event{Text: s.in, Logprobs: lp(s.in), Finish: s.finish}, s.out); len(got) != s.want || err != nil {
			t.Errorf("step %d: %d entries, want %d; %v", i, len(got), s.want, err)
		}
	}
	if !e.choices[0].changed {
		t.Error("a changed text must be noticed")
	}
	one := func(what string, ev engine.Event, want int) {
		t.Helper()
		e := fresh(asked)
		got, err := e.logprobs(&ev, ev.Text)
		if len(got) != want || err != nil {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		for _, entry := range got {
			if entry.Token != string(entry.Bytes) {
				t.Errorf("%s: a token is called %q", what, entry.Token)
			}
		}
	}
	one("an entry past the end of the text", engine.Event{Text: "ab", Logprobs: append(lp("ab"), lp("STOP")...), Finish: "stop"}, 1)
	one("an entry that spells another text", engine.Event{Text: "abcd", Logprobs: append(lp("ab"), lp("13")...)}, 0)
	one("entries of the reasoning", engine.Event{Reasoning: "abcd", Logprobs: lp("ab")}, 0)
	one("entries of both", engine.Event{Text: "ab", Reasoning: "cd", Logprobs: lp("ab")}, 0)
	named := lp("ab")
	named[0].Token = "13912345678"
	one("an entry with another name", engine.Event{Text: "ab", Logprobs: named}, 1)
	other := lp("ab")
	other[0].Top = append(lp("cd"), lp("⟦1⟧⟦")...) // what the rules do not leave as it is
	one("an alternative that is hidden", engine.Event{Text: "ab", Logprobs: other}, 0)
}

// FuzzEgress: whatever events an engine sends, in whatever order, nothing panics, what a choice shows depends on its texts alone and not on
// where they were cut, and nothing follows the end of a choice.
func FuzzEgress(f *testing.F) {
	f.Add([]byte("t⟦1⟧ab\x00r⟦2⟧cd\x01tSECRET\x00fno\x00e"), uint8(2))
	f.Add([]byte(`c{"a":"⟦1⟧","b":[1234567]}`+"\x00e"), uint8(1))
	f.Add([]byte("rabc\x00txyz\x00rdef\x00e\x00tlate"), uint8(3))
	f.Add([]byte("lab\x00l⟦\x00l1⟧\x00e"), uint8(1))
	f.Fuzz(func(t *testing.T, script []byte, size uint8) {
		whole, failed := playEvents(t, script, 1<<20)
		cut, also := playEvents(t, script, 1+int(size)%8)
		if failed != also || !failed && whole != cut {
			t.Fatalf("%q shows %q whole (failed %v) and %q cut (failed %v)", script, whole, failed, cut, also)
		}
	})
}

// playEvents sends what a script says, in pieces of so many characters, and returns all that was shown.
func playEvents(t *testing.T, script []byte, size int) (shown string, failed bool) {
	t.Helper()
	e := fresh(func(c *Config) { c.Choices, c.Logprobs, c.RecordForm = 2, true, RecordMasked })
	var texts, reasonings, refusals, arguments [2]string
	send := func(ev engine.Event) bool {
		out, _, err := e.Pass(t.Context(), ev)
		if err != nil {
			failed = true
			return false
		}
		texts[out.Choice] += out.Text
		reasonings[out.Choice] += out.Reasoning
		refusals[out.Choice] += out.Refusal
		for _, c := range out.Calls {
			arguments[out.Choice] += c.Arguments
		}
		for _, l := range out.Logprobs {
			if !strings.Contains(texts[out.Choice], string(l.Bytes)) {
				t.Fatalf("an entry spells %q, the text is %q", l.Bytes, texts[out.Choice])
			}
		}
		return true
	}
	begun := [2]bool{}
	for n, line := range strings.Split(strings.ToValidUTF8(string(script), "\uFFFD"), "\x00") {
		if line == "" {
			continue
		}
		ev, rest := engine.Event{Choice: n % 2}, []rune(line[1:])
		if line[0] == 'e' {
			ev.Finish = engine.FinishLength
			if !send(ev) {
				return "", true
			}
			continue
		}
		for len(rest) > 0 {
			k := min(size, len(rest))
			text := string(rest[:k])
			ev, rest = engine.Event{Choice: n % 2}, rest[k:]
			switch line[0] {
			case 'r':
				ev.Reasoning = text
			case 'f':
				ev.Refusal = text
			case 'c':
				d := engine.ToolDelta{Arguments: text}
				if !begun[n%2] {
					d.ID, d.Name, begun[n%2] = "a", "f", true
				}
				ev.Calls = []engine.ToolDelta{d}
			case 'l':
				ev.Text, ev.Logprobs = text, []engine.TokenLogprob{{Token: text, Bytes: []byte(text)}}
			default:
				ev.Text = text
			}
			if !send(ev) {
				return "", true
			}
		}
	}
	for i := range e.choices {
		if !e.choices[i].ended && !send(engine.Event{Choice: i, Finish: engine.FinishLength}) {
			return "", true
		}
	}
	if e.awaitsUsage {
		texts[e.held.Choice] += e.held.Text
		reasonings[e.held.Choice] += e.held.Reasoning
		refusals[e.held.Choice] += e.held.Refusal
		for _, c := range e.held.Calls {
			arguments[e.held.Choice] += c.Arguments
		}
	}
	return strings.Join(slices.Concat(texts[:], reasonings[:], refusals[:], arguments[:]), "\x00"), false
}

// TestMarkingLeaves: what the engine says of a watermark leaves with the usage, whichever way the answer goes.
func TestMarkingLeaves(t *testing.T) {
	mark, usage := &engine.Marking{Applied: true, Tokens: 3}, &engine.Usage{}
	for name, events := range map[string][]engine.Event{
		"with the end":   {{Text: "a"}, {Finish: engine.FinishStop, Usage: usage, Marking: mark}},
		"behind the end": {{Text: "a"}, {Finish: engine.FinishStop}, {Usage: usage, Marking: mark}},
	} {
		a := fresh(func(*Config) {})
		var last engine.Event
		for _, ev := range events {
			out, _, err := a.Pass(t.Context(), ev)
			if err != nil {
				t.Fatal(err)
			}
			last = out
		}
		if last.Usage != usage || last.Marking != mark {
			t.Errorf("%s, a stream: %+v", name, last)
		}
		for _, logprobs := range []bool{false, true} {
			all, err := fresh(func(c *Config) { c.Logprobs = logprobs }).Whole(t.Context(), events)
			if err != nil || all[len(all)-1].Marking != mark {
				t.Errorf("%s, in one piece, log-probabilities %v: %+v, %v", name, logprobs, all, err)
			}
		}
	}
}
