package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// rules are a guard with a policy for each thing that may happen to values of an answer, one tenant for each.
type rules struct {
	guard   *governance.Guard
	keys    *keyring.Ring
	tenants []string
}

func newRules(t testing.TB) *rules {
	t.Helper()
	keys, log := keyring.FromBytes([]byte(strings.Repeat("k", 32))), slog.New(slog.DiscardHandler)
	g, err := governance.New(governance.Config{}, governance.NewPolicyStore(dbtest.SQLite(t)), keys, classify.New(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rules{guard: g, keys: keys}
	if _, err := g.EnsureDefault(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if err := g.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"observe", "redact", "token", "partial", "block"} {
		policy := "schema: 2\nname: " + action + "\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities:\n  default: {request: token, passage: token, answer: " + action + "}\n"
		if _, err := g.Publish(t.Context(), action, []byte(policy), "test"); err != nil {
			t.Fatal(err)
		}
		r.tenants = append(r.tenants, action)
	}
	return r
}

const (
	phone   = "13812345678"
	mail    = "li.lei@example.com"
	brought = "13900001111" // the answer brings it
)

// admit admits a prompt with the values, and returns their pseudonyms. It gives the same each time.
func (r *rules) admit(t testing.TB, tenant string, values ...string) (*governance.Admission, []string) {
	t.Helper()
	texts := make([]string, len(values))
	fields := make([]governance.Field, len(values))
	for i, v := range values {
		texts[i] = v
		fields[i] = governance.Field{Path: "prompt", Text: &texts[i]}
	}
	a, err := r.guard.Admit(t.Context(), governance.AdmitRequest{Request: "r1", Tenant: tenant, Session: "s1", Action: "chat.completions", Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	return a, texts
}

// config is an answer over the real rules.
func (r *rules) config(tenant string, a *governance.Admission) egress.Config {
	return egress.Config{
		Choices: 1, Model: "chat", Open: func(egress.Kind) egress.Release { return a.Release() }, StoreValues: a.StoreValues, Masked: a.Masked(),
		CallID: func(choice, index int) string { return fmt.Sprintf("call_%d_%d", choice, index) },
		Digest: audit.NewAnswerDigest(r.keys, tenant),
	}
}

// script is what an engine says.
type script struct {
	tenant  string
	values  []string // of the prompt
	stop    []string
	json    bool
	entries bool // log-probabilities are asked for
	label   bool
	kept    egress.RecordForm
	choices []said
}

// said is a choice of a script.
type said struct {
	reasoning, refusal, text string
	calls                    []engine.ToolCall
	finish                   engine.Finish
}

// seen is what the caller and the record know of an answer.
type seen struct {
	Choices  []seenChoice
	Tally    egress.Tally
	Findings []governance.Finding
	Failed   fault.Code
}

type seenChoice struct {
	Text, Reasoning, Refusal string
	Calls                    []engine.ToolCall
	Finish                   engine.Finish
	Entries                  []engine.TokenLogprob
}

// spelled is the text that the entries spell.
func (c *seenChoice) spelled() string {
	var b strings.Builder
	for _, entry := range c.Entries {
		b.Write(entry.Bytes)
	}
	return b.String()
}

func (s *seen) add(ev engine.Event) {
	c := &s.Choices[ev.Choice]
	c.Text, c.Reasoning, c.Refusal = c.Text+ev.Text, c.Reasoning+ev.Reasoning, c.Refusal+ev.Refusal
	for _, d := range ev.Calls {
		if d.Index == len(c.Calls) {
			c.Calls = append(c.Calls, engine.ToolCall{ID: d.ID, Name: d.Name})
		}
		c.Calls[d.Index].Arguments += d.Arguments
	}
	c.Entries, c.Finish = append(c.Entries, ev.Logprobs...), c.Finish+ev.Finish
}

// cutter returns the lengths of the pieces of a text.
type cutter func(text string) []int

func unsplit(text string) []int { return []int{len(text)} }

// anywhere cuts between any two bytes, also inside a character.
func anywhere(rng *rand.Rand, most int) cutter {
	return func(text string) (lengths []int) {
		for n := len(text); n > 0; {
			k := min(n, 1+rng.IntN(most))
			lengths, n = append(lengths, k), n-k
		}
		return lengths
	}
}

// events makes the events of a script. The choices take turns as pick says.
func (s *script) events(cut cutter, pick func(n int) int) []engine.Event {
	queues := make([][]engine.Event, len(s.choices))
	for i, c := range s.choices {
		add := func(text string, event func(piece string) engine.Event) {
			if text == "" {
				return
			}
			for _, n := range cut(text) {
				ev := event(text[:n])
				ev.Choice = i
				queues[i] = append(queues[i], ev)
				text = text[n:]
			}
		}
		add(c.reasoning, func(p string) engine.Event { return engine.Event{Reasoning: p} })
		add(c.refusal, func(p string) engine.Event { return engine.Event{Refusal: p} })
		add(c.text, func(p string) engine.Event {
			ev := engine.Event{Text: p}
			if s.entries {
				ev.Logprobs = []engine.TokenLogprob{{Token: p, Bytes: []byte(p), Top: []engine.TokenLogprob{{Token: p, Bytes: []byte(p)}}}}
			}
			return ev
		})
		for k, call := range c.calls {
			begun := false
			add(call.Arguments, func(p string) engine.Event {
				d := engine.ToolDelta{Index: k, Arguments: p}
				if !begun {
					d.ID, d.Name, begun = call.ID, call.Name, true
				}
				return engine.Event{Calls: []engine.ToolDelta{d}}
			})
		}
		if n := len(queues[i]); n > 0 && pick(2) == 0 { // the end comes with the last piece, or alone
			queues[i][n-1].Finish = c.finish
		} else {
			queues[i] = append(queues[i], engine.Event{Choice: i, Finish: c.finish})
		}
	}
	var out []engine.Event
	for {
		var left []int
		for i := range queues {
			if len(queues[i]) > 0 {
				left = append(left, i)
			}
		}
		if len(left) == 0 {
			return append(out, engine.Event{Usage: &engine.Usage{PromptTokens: 1}})
		}
		i := left[pick(len(left))]
		out, queues[i] = append(out, queues[i][0]), queues[i][1:]
	}
}

// play lets the events of a script out in one of the two forms.
func (r *rules) play(t testing.TB, s *script, events []engine.Event, whole bool) seen {
	t.Helper()
	admission, _ := r.admit(t, s.tenant, s.values...)
	cfg := r.config(s.tenant, admission)
	cfg.Choices, cfg.Stop, cfg.JSON, cfg.Logprobs, cfg.Label, cfg.RecordForm = len(s.choices), s.stop, s.json, s.entries, s.label && !s.json, s.kept
	cfg.Tools = []string{"dial"}
	stored := 0
	cfg.StoreValues = func(ctx context.Context) error {
		stored++
		return admission.StoreValues(ctx)
	}
	a := egress.New(cfg)
	got := seen{Choices: make([]seenChoice, len(s.choices))}
	if whole {
		out, err := a.Whole(t.Context(), events)
		if err != nil {
			return seen{Failed: fault.Public(err).Code()}
		}
		if stored != 1 {
			t.Fatalf("stored %d times", stored)
		}
		for i, ev := range out {
			if got.add(ev); (ev.Usage != nil) != (i == len(out)-1) {
				t.Fatalf("usage with event %d of %d", i, len(out))
			}
		}
	} else {
		for i, ev := range events {
			out, last, err := a.Pass(t.Context(), ev)
			if err != nil {
				return seen{Failed: fault.Public(err).Code()}
			}
			if got.add(out); last != (out.Usage != nil) || last != (i == len(events)-1) {
				t.Fatalf("event %d of %d is the last: %v", i, len(events), last)
			}
		}
	}
	got.Tally, got.Findings = a.Tally(), admission.Findings()
	r.check(t, s, &got)
	return got
}

// check fails unless the tally, the label and the entries are about what was seen.
func (r *rules) check(t testing.TB, s *script, got *seen) {
	t.Helper()
	spelled := ""
	for i, c := range got.Choices {
		if i > 0 {
			spelled += "\x00"
		}
		spelled += c.Text
		if c.Reasoning != "" {
			spelled += "\x00\x00reasoning\x00" + c.Reasoning
		}
		if c.Refusal != "" {
			spelled += "\x00\x00refusal\x00" + c.Refusal
		}
		for _, call := range c.Calls {
			spelled += "\x00" + call.Name + "\x00" + call.Arguments
		}
		text := c.Text
		refuses := strings.TrimSpace(text) == "" && strings.TrimSpace(c.Refusal) != ""
		if refuses { // the label stands where there is something to read
			text = c.Refusal
		}
		if s.label && !s.json && c.Finish != engine.FinishNone && (len(c.Calls) == 0 || strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(text, label.TextEnglish), label.TextChinese)) != "") {
			bare, end, _ := strings.Cut(text, "\n\n"+label.TextEnglish)
			if bare == text {
				bare, end, _ = strings.Cut(text, "\n\n"+label.TextChinese)
			}
			var sentence label.Sentence
			if sentence.Read(bare); end != "" || bare+sentence.Text() != text {
				t.Fatalf("%+v: %q is not labelled as it should be", *s, text)
			}
			text = bare
		} else if strings.Contains(text, label.TextEnglish) || strings.Contains(text, label.TextChinese) {
			t.Fatalf("%+v: %q is labelled", *s, text)
		}
		if refuses {
			text = c.Text
		}
		if !strings.HasPrefix(text, c.spelled()) || s.entries && c.spelled() != s.choices[i].text && !got.Tally.Withheld {
			t.Fatalf("%+v: %q is spelled %q, withheld %v", *s, text, c.spelled(), got.Tally.Withheld)
		}
	}
	d := audit.NewAnswerDigest(r.keys, s.tenant)
	_, _ = d.WriteString(spelled)
	kept := got.Tally.Recorded
	if got.Tally.Digest != d.String() || s.kept == egress.RecordClear && kept != spelled || s.kept == egress.RecordNone && kept != "" ||
		s.kept == egress.RecordMasked && (strings.Contains(kept, phone) || strings.Contains(kept, mail) || strings.Count(kept, "\x00") != strings.Count(spelled, "\x00")) {
		t.Fatalf("%+v: kept %q and digest %s of %q", *s, kept, got.Tally.Digest, spelled)
	}
}

// same fails unless the stream form of events says what the whole form says of them, and of the same answer unsplit.
func (r *rules) same(t *testing.T, s *script, events []engine.Event, want seen) {
	t.Helper()
	stream, whole := r.play(t, s, events, false), r.play(t, s, events, true)
	if !reflect.DeepEqual(stream, whole) {
		t.Fatalf("%+v\nevents %+v\nstream %+v\nwhole  %+v", *s, events, stream, whole)
	}
	stream.Tally.Events = want.Tally.Events // they are counted as they come
	for i := range stream.Choices {         // so are entries, which spell the same text as long as none is withheld
		c, other := &stream.Choices[i], &want.Choices[i]
		if !stream.Tally.Withheld && c.spelled() != other.spelled() {
			t.Fatalf("%+v\nevents %+v\n%q is spelled %q, unsplit %q", *s, events, c.Text, c.spelled(), other.spelled())
		}
		c.Entries = other.Entries
	}
	if !reflect.DeepEqual(stream, want) {
		t.Fatalf("%+v\nevents  %+v\nstream  %+v\nunsplit %+v", *s, events, stream, want)
	}
}

func first(int) int { return 0 }

// TestBothFormsAreOneForEverySplit: small answers with every split of their characters.
func TestBothFormsAreOneForEverySplit(t *testing.T) {
	r := newRules(t)
	for n, tenant := range []string{"observe", "token"} {
		_, p := r.admit(t, tenant, phone)
		runes := []rune(p[0])
		half := string(runes[:len(runes)-2])
		for k, s := range []script{
			{choices: []said{{text: "a" + p[0], finish: engine.FinishStop}}, label: true},
			{choices: []said{{text: p[0] + "b", finish: engine.FinishLength}}, kept: egress.RecordClear},
			{choices: []said{{text: "打" + half, finish: engine.FinishLength}}, kept: egress.RecordMasked},
			{choices: []said{{text: half, finish: engine.FinishStop}}, stop: []string{"⟧"}},
			{choices: []said{{text: brought[:10] + "2", finish: engine.FinishStop}}, kept: egress.RecordMasked},
			{choices: []said{{reasoning: half + "⟧", finish: engine.FinishFilter}}, kept: egress.RecordClear},
			{choices: []said{{calls: []engine.ToolCall{{ID: "c", Name: "dial", Arguments: `{"":"` + half[:len(half)-2]}}, finish: engine.FinishLength}}},
			{choices: []said{{text: `"` + half + `⟧"`, finish: engine.FinishStop}}, json: true},
			{choices: []said{{text: `[1,tru`, finish: engine.FinishStop}}, json: true},
			{choices: []said{{text: "plain word", finish: engine.FinishStop}}, entries: true},
		} {
			if k%2 != n {
				continue // half of them under each policy
			}
			s.tenant, s.values = tenant, []string{phone}
			if s.entries {
				s.values = nil
			}
			want := r.play(t, &s, s.events(unsplit, first), true)
			c := s.choices[0]
			text := []rune(c.reasoning + c.text)
			if c.calls != nil {
				text = []rune(c.calls[0].Arguments)
			}
			for split := range 1 << (len(text) - 1) {
				every := func(string) (lengths []int) {
					n := 0
					for i, c := range text {
						if n += utf8.RuneLen(c); i == len(text)-1 || split>>i&1 == 1 {
							lengths, n = append(lengths, n), 0
						}
					}
					return lengths
				}
				r.same(t, &s, s.events(every, func(n int) int { return split % n }), want)
			}
		}
	}
}

// TestBothFormsAreOne: answers of every kind, cut anywhere, their choices in any order.
func TestBothFormsAreOne(t *testing.T) {
	r := newRules(t)
	rng := rand.New(rand.NewPCG(11, 7))
	rounds, failed, restored, withheld := 400, 0, 0, 0
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		rounds = 20_000
	}
	for range rounds {
		s := r.random(t, rng)
		want := r.play(t, s, s.events(unsplit, first), true)
		if want.Failed != "" {
			failed++
		}
		if want.Tally.Withheld {
			withheld++
		}
		if strings.Contains(fmt.Sprint(want.Choices), phone) {
			restored++
		}
		for _, most := range []int{1, 2, 5, 30} {
			r.same(t, s, s.events(anywhere(rng, most), rng.IntN), want)
		}
	}
	if failed == 0 || failed > rounds/2 || restored == 0 || withheld == 0 {
		t.Errorf("of %d answers %d were stopped, %d showed a value again, %d withheld entries: the test says little", rounds, failed, restored, withheld)
	}
}

// random makes a script.
func (r *rules) random(t *testing.T, rng *rand.Rand) *script {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	s := &script{
		tenant: r.tenants[rng.IntN(len(r.tenants))], values: []string{phone, mail}, json: rng.IntN(4) == 0, entries: rng.IntN(4) == 0, label: rng.IntN(2) == 0,
		kept: egress.RecordForm(pick("", "clear", "masked")), choices: make([]said, 1+rng.IntN(3)),
	}
	_, p := r.admit(t, s.tenant, s.values...)
	if rng.IntN(4) == 0 {
		s.values = nil
	}
	tail := []rune(p[0])
	for k := range 3 {
		s.stop = append(s.stop, string(tail[len(tail)-1-k-rng.IntN(3):]))
	}
	text := func(most int) string {
		var b strings.Builder
		for range rng.IntN(most) {
			one := []rune(p[rng.IntN(2)])
			b.WriteString(pick(
				string(one), string(one), strings.ToLower(string(one)), string(one[1:]), string(one[:len(one)-1]), string(one[:rng.IntN(len(one))]), "⟦", "⟧", "⟦手机·", "⟦姓名·22222⟧",
				"您好，", "the call ", "一二三四五六七", "密码：", " ", "\n", "é", `\`, `"`, "7", "0.5", brought, "bob@example.org", "请打给张伟先生。", "[", "手机", "·",
			))
		}
		return b.String()
	}
	value := func() string {
		b, err := json.Marshal(map[string]any{pick("to", "密码", text(3)): text(5), "n": []any{rng.IntN(1 << 40), nil, text(3), map[string]any{"tel": brought}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for i := range s.choices {
		c := &s.choices[i]
		c.finish = engine.Finish(pick("stop", "length", "content_filter"))
		if rng.IntN(3) == 0 {
			c.reasoning = text(6)
		}
		if rng.IntN(6) == 0 {
			c.refusal = text(6)
		}
		if c.text = text(14); s.json && rng.IntN(3) > 0 {
			c.text = value() + pick("", "", " and ", "⟦")
			c.text = c.text[:len(c.text)-rng.IntN(2)*rng.IntN(len(c.text))]
			c.text = strings.ToValidUTF8(c.text, "")
		}
		if rng.IntN(3) > 0 {
			continue
		}
		for range 1 + rng.IntN(2) {
			c.calls = append(c.calls, engine.ToolCall{ID: pick("c1", "odd id", brought), Name: pick("dial", "other", string([]rune(p[0])[1:])), Arguments: value()})
		}
		if c.finish = engine.FinishTools; rng.IntN(2) == 0 {
			c.finish = engine.FinishLength
			last := &c.calls[len(c.calls)-1].Arguments
			*last = strings.ToValidUTF8((*last)[:1+rng.IntN(len(*last))], "")
		}
	}
	return s
}

// TestNoHalfOfAPseudonym: wherever an answer ends, and whatever ends it, what is shown is the beginning of what the whole answer shows: never
// a part of a pseudonym, however it is spelled. What is kept of it has no part of one either.
func TestNoHalfOfAPseudonym(t *testing.T) {
	r := newRules(t)
	const tenant = "observe"
	_, p := r.admit(t, tenant, phone, mail)
	for _, c := range []struct {
		name, before, after string
		place               func(*said) *string
	}{
		{"text", "您好 ", " bye", func(s *said) *string { return &s.text }},
		{"reasoning", "is ", "\n", func(s *said) *string { return &s.reasoning }},
		{"refusal", "", "。", func(s *said) *string { return &s.refusal }},
		{"JSON", `{"to":["`, `"]}`, func(s *said) *string { return &s.text }},
		{"arguments", `{"to":["`, `"]}`, func(s *said) *string { return &s.calls[0].Arguments }},
	} {
		for _, marks := range []string{"⟦⟧", "[]", "  "} {
			var spelt [2]string // the pseudonyms
			for i := range p {
				m := []rune(marks)
				spelt[i] = strings.Trim(string(m[0])+strings.Trim(p[i], "⟦⟧")+string(m[1]), " ")
			}
			full := c.before + spelt[0] + " / " + spelt[1] + c.after
			shown := strings.NewReplacer(spelt[0], phone, spelt[1], mail).Replace(full)
			for cut := len(c.before); cut <= len(full); cut++ {
				if cut < len(full) && !utf8.RuneStart(full[cut]) {
					continue
				}
				for _, finish := range []engine.Finish{engine.FinishLength, engine.FinishStop, engine.FinishFilter, engine.FinishNone} {
					if finish == engine.FinishStop && (c.name != "text" && c.name != "JSON" || cut == len(full)) {
						continue // stop strings end answers
					}
					s := script{tenant: tenant, values: []string{phone, mail}, json: c.name == "JSON", kept: egress.RecordMasked, choices: []said{{finish: finish}}}
					if finish == engine.FinishStop {
						next := []rune(full[cut:])
						s.stop = []string{"never", string(next[:min(len(next), 3)])}
					}
					if c.name == "arguments" {
						s.choices[0].calls = []engine.ToolCall{{ID: "c", Name: "dial"}}
					}
					*c.place(&s.choices[0]) = full[:cut]
					for _, size := range []int{1, 4, 1 << 20} {
						events := s.events(func(text string) (lengths []int) {
							for n := len(text); n > 0; n -= min(n, size) {
								lengths = append(lengths, min(n, size))
							}
							return lengths
						}, first)
						for _, whole := range []bool{false, true} {
							if whole && finish == engine.FinishNone {
								continue // who leaves gets nothing of an answer in one piece
							}
							got := r.play(t, &s, events, whole)
							choice := got.Choices[0]
							out := *c.place(&said{text: choice.Text, reasoning: choice.Reasoning, refusal: choice.Refusal, calls: append(choice.Calls, engine.ToolCall{})})
							if !strings.HasPrefix(shown, out) || cut == len(full) && finish != engine.FinishNone && out != shown {
								t.Fatalf("%s ending with %q (%s): showed %q", c.name, full[:cut], finish, out)
							}
							kept := got.Tally.Recorded
							for _, one := range spelt { // its last mark may be lost: it stands for the value all the same
								kept = strings.ReplaceAll(strings.ReplaceAll(kept, one, ""), strings.TrimRight(one, "⟧]"), "")
							}
							if strings.ContainsAny(kept, "⟦⟧·") {
								t.Fatalf("%s ending with %q (%s): kept %q", c.name, full[:cut], finish, got.Tally.Recorded)
							}
						}
					}
				}
			}
		}
	}
}

// TestNothingIsAllocated: an event with text goes through the real rules without an allocation while no value is masked, nothing waits and
// nothing is kept. Where a rule hides values of answers, words wait for those behind them: they may be a name or an address. They cost one.
func TestNothingIsAllocated(t *testing.T) {
	r := newRules(t)
	english := strings.SplitAfter("The quick brown fox jumps over lazy dogs, twice; see section three of the report. ", " ")
	chinese := strings.Split("今天天气很好，我们去公园散步吧。费用是多少？", "")
	for _, c := range []struct {
		tenant string
		pieces []string
		most   float64 // for all pieces together
	}{
		{"observe", slices.Concat(english, chinese), 0},
		{"redact", []string{"，", "了", "。", "的", ". "}, 0},
		{"redact", slices.Concat(english, chinese), float64(len(english) + len(chinese))},
	} {
		admission, _ := r.admit(t, c.tenant)
		cfg := r.config(c.tenant, admission)
		cfg.Label = true
		a := egress.New(cfg)
		ctx := t.Context()
		pass := func() {
			for _, piece := range c.pieces {
				if _, _, err := a.Pass(ctx, engine.Event{Text: piece}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 10 { // room is made
			pass()
		}
		if n := testing.AllocsPerRun(100, pass); n > c.most {
			t.Errorf("%s: %v allocations for %d pieces", c.tenant, n, len(c.pieces))
		}
	}
}

// BenchmarkAnswer lets an answer of 200 pieces out, in both forms, where values of answers are counted and where they are hidden.
func BenchmarkAnswer(b *testing.B) {
	r := newRules(b)
	pieces := strings.SplitAfter(strings.Repeat("The quick brown fox jumps over lazy dogs, twice; see section three of the report. ", 14), " ")[:200]
	events := make([]engine.Event, 0, 202)
	for _, p := range pieces {
		events = append(events, engine.Event{Text: p})
	}
	events = append(events, engine.Event{Finish: engine.FinishStop}, engine.Event{Usage: &engine.Usage{}})
	for _, tenant := range []string{"observe", "redact"} {
		for _, form := range []string{"stream", "whole"} {
			b.Run(tenant+"/"+form, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					admission, _ := r.admit(b, tenant)
					a := egress.New(r.config(tenant, admission))
					if form == "whole" {
						if _, err := a.Whole(b.Context(), events); err != nil {
							b.Fatal(err)
						}
						continue
					}
					for _, ev := range events {
						if _, _, err := a.Pass(b.Context(), ev); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
