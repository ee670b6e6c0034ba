package message

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/message/catalog"
)

// verb is a verb of fmt with its index, if it has one.
var verb = regexp.MustCompile(`%(?:\[(\d+)\])?[-+#0-9.]*([a-zA-Z%])`)

// verbs returns the verb of each argument of a format.
func verbs(text string) map[int]string {
	took := map[int]string{}
	next := 1
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[2] == "%" {
			continue
		}
		if m[1] != "" {
			next, _ = strconv.Atoi(m[1])
		}
		took[next] = m[2]
		next++
	}
	return took
}

// maskedName is an example that English texts give.
const maskedName = "张**"

// TestCataloguesAgree holds that both catalogues have the same ids, each with the same verbs for the same arguments.
func TestCataloguesAgree(t *testing.T) {
	en, zh := entries(english), entries(chinese)
	for _, id := range slices.Sorted(maps.Keys(zh)) {
		if _, ok := en[id]; !ok {
			t.Errorf("%s is only in Chinese", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(en)) {
		text, ok := zh[id]
		switch {
		case !ok:
			t.Errorf("%s is only in English", id)
		case strings.ContainsFunc(verb.ReplaceAllString(en[id], ""), unicode.IsLetter) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }):
			t.Errorf("%s: %q is no Chinese for %q", id, text, en[id])
		case text == "" || strings.ContainsFunc(strings.ReplaceAll(en[id], maskedName, ""), func(r rune) bool { return unicode.Is(unicode.Han, r) }):
			t.Errorf("%s: %q is no English", id, en[id])
		case !maps.Equal(verbs(en[id]), verbs(text)):
			t.Errorf("%s: English takes %v, Chinese takes %v", id, verbs(en[id]), verbs(text))
		}
	}
}

// TestCataloguesAreInOrder holds what a translator and a diff rely on: ids are words, sorted, and each comes once. The catalogue
// of x/text takes every text.
func TestCataloguesAreInOrder(t *testing.T) {
	word := regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`)
	for l, file := range []string{English: english, Chinese: chinese} {
		var ids []string
		for line := range strings.Lines(file) {
			if id, _, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "#") {
				ids = append(ids, id)
				if !word.MatchString(id) {
					t.Errorf("%s: %q is no id", tags[l], id)
				}
			}
		}
		for line, next, ok := strings.Cut(file, "\n"); ok; line, next, ok = strings.Cut(next, "\n") {
			if line == "" && !strings.HasPrefix(next, "\t") { // sorting by hand tears paragraphs apart
				t.Errorf("%s: an empty line stands before %.40q, not within an entry", tags[l], next)
			}
		}
		if !slices.IsSorted(ids) {
			t.Errorf("%s: the ids are not sorted", tags[l])
		}
		if len(ids) < 50 || len(slices.Compact(ids)) != len(entries(file)) {
			t.Errorf("%s: %d ids, %d entries: an id comes twice or an entry is broken", tags[l], len(ids), len(entries(file)))
		}
		for id, text := range entries(file) {
			if err := catalog.NewBuilder().Set(tags[l], id, compile(text)...); err != nil {
				t.Errorf("%s: %s: %v", tags[l], id, err)
			}
		}
	}
}

func TestPhrase(t *testing.T) {
	for _, tt := range []struct {
		name   string
		p      Phrase
		en, zh string
	}{
		{"sentence", Say("wrong_password"), "The current password is wrong.", "当前密码错误。"},
		{"verbs", Say("request_too_large", 33554432), "The request body is larger than 33554432 bytes. Send less, or ask an administrator to raise the limit.", "请求体超过 33554432 字节。请减小请求，或联系管理员提高上限。"},
		{"phrase in a phrase", Say("conflict", Quote("it is so", "原本如此")), "The change conflicts with the current state: it is so.", "更改与当前状态冲突：原本如此。"},
		{"signs of fmt in a quotation", Quote("100% sure", "100% 确定"), "100% sure", "100% 确定"},
		{"no such id", Say("nobody.wrote_this"), "nobody.wrote_this", "nobody.wrote_this"},
		{"nothing", Phrase{}, "", ""},
	} {
		if tt.p.String() != tt.en || tt.p.In(Chinese) != tt.zh {
			t.Errorf("%s: %q, %q", tt.name, tt.p.In(English), tt.p.In(Chinese))
		}
	}
}

func TestBoth(t *testing.T) {
	if got := Both("wrong_password", " / "); got != "The current password is wrong. / 当前密码错误。" {
		t.Error(got)
	}
	if got := inTurns("one\nmore\n\ntwo", "一\n\n二"); got != "one\nmore\n一\n\ntwo\n二" {
		t.Errorf("%q", got)
	}
}

func TestEntries(t *testing.T) {
	got := entries("# for translators\na.b: one: two\n\nc: first\n\tsecond\n\n\tthird\n\nd: ends\n")
	if want := map[string]string{"a.b": "one: two", "c": "first\nsecond\n\nthird", "d": "ends"}; !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestPluralForms proves the choice between ${…} forms, by any type of number.
func TestPluralForms(t *testing.T) {
	b := catalog.NewBuilder()
	if err := b.Set(tags[English], "x", compile("%d ${1:key|keys} of %d ${2:box|boxes}")...); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]any{
		"%d keys of %d box": {0, int64(1)}, "%d key of %d boxes": {uint8(1), 2}, "%d keys of %d boxes": {11, nil},
	} {
		f := form{args: args}
		if err := b.Context(tags[English], &f).Execute("x"); err != nil || f.format.String() != want {
			t.Errorf("%v: %q, %v", args, f.format.String(), err)
		}
	}
}

func BenchmarkSentence(b *testing.B) {
	for b.Loop() {
		_ = Say("invalid_value", "top_k", "x").In(Chinese)
	}
}
