package classify

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/text"
)

func defineAll(t testing.TB, classes ...Custom) *Set {
	t.Helper()
	s, err := New().Define(classes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCustomClasses(t *testing.T) {
	set := defineAll(t,
		Custom{Class: "employee", Tag: "工号", Pattern: `E[0-9]{6}`},
		Custom{Class: "project", Tag: "项目", Words: []string{"青松计划", "Blue Whale", "青松"}},
		Custom{Class: "file", Tag: "卷号", Pattern: `[A-Z]{2}-?\d{4,8}`, Context: []string{"卷宗", "档案"}},
		Custom{Class: "member", Tag: "会员", Pattern: `\b\d{8}\b`, Check: "luhn"},
		Custom{Class: "code11", Tag: "编码", Pattern: `ZJ\d{4}[0-9X]`},
		Custom{Class: "iban", Tag: "国际账号", Pattern: `[A-Z0-9]{20,30}`, Check: "mod97_10"},
	)
	for _, e := range []struct {
		class Class
		text  string
	}{
		{"employee", "工号«E123456»的同事"},
		{"employee", "工号«Ｅ１２３４５６»的同事"},
		{"project", "关于«青松计划»的批复"},
		{"project", "关于«青松»的批复"},
		{"project", "the «blue whale» team"},
		{"", "the blue whales team"},
		{"file", "卷宗 «AB-12345» 已归档"},
		{"file", "«AB12345»号档案"},
		{"", "型号 AB-12345 已停产"},
		{"member", "卡«" + luhnCard("1234567") + "»，"},
		{"", "卡12345670，"},
		{"", "卡1234567412，"},
	} {
		text, start, end := example{e.class, e.text}.parse()
		got := set.Find(text)
		if e.class == "" && len(got) != 0 || e.class != "" && (len(got) != 1 || got[0].Class != e.class || got[0].Start != start || got[0].End != end) {
			t.Errorf("%q: %+v, want %s [%d,%d)", text, got, e.class, start, end)
		}
		want := scanPieces(set, text)
		for cut := range len(text) {
			if got := scanPieces(set, text[:cut], text[cut:]); got != want {
				t.Errorf("%q cut at %d:\n%s\n%s", text, cut, got, want)
			}
		}
	}
	only := set.Only(func(c Class) bool { return c == "project" })
	if got := only.Find("E123456 青松"); len(got) != 1 || got[0].Class != "project" {
		t.Errorf("%+v", got)
	}
}

func TestBadDefinitions(t *testing.T) {
	good := Custom{Class: "employee", Tag: "工号", Pattern: `E[0-9]{6}`}
	for _, c := range []struct {
		field string
		edit  func(*Custom)
	}{
		{"class", func(c *Custom) { c.Class = "E" }},
		{"class", func(c *Custom) { c.Class = "员工" }},
		{"class", func(c *Custom) { c.Class = "1ab" }},
		{"class", func(c *Custom) { c.Class = Mobile }},
		{"tag", func(c *Custom) { c.Tag = "" }},
		{"tag", func(c *Custom) { c.Tag = "手机号" }},
		{"tag", func(c *Custom) { c.Tag = "⟦" }},
		{"pattern", func(c *Custom) { c.Pattern = "" }},
		{"pattern", func(c *Custom) { c.Pattern = "(" }},
		{"pattern", func(c *Custom) { c.Pattern = `\d+` }},
		{"pattern", func(c *Custom) { c.Pattern = `a.*b` }},
		{"pattern", func(c *Custom) { c.Pattern = `x?` }},
		{"pattern", func(c *Custom) { c.Pattern = `(?:(?:a{1,10}){1,10}){1,10}` }},
		{"pattern", func(c *Custom) {
			c.Pattern = `(?:` + strings.Repeat("[a-c]", 100) + `|` + strings.Repeat("[d-f]x?", 60) + `){1,1}` + strings.Repeat("y", 30)
		}},
		{"pattern", func(c *Custom) { c.Words = []string{"ab"} }},
		{"words", func(c *Custom) { c.Pattern, c.Words = "", []string{"a"} }},
		{"words", func(c *Custom) { c.Pattern, c.Words = "", []string{strings.Repeat("长", 200)} }},
		{"check", func(c *Custom) { c.Check = "crc" }},
		{"context", func(c *Custom) { c.Context = []string{""} }},
	} {
		bad := good
		c.edit(&bad)
		_, err := New().Define([]Custom{bad})
		var ce *CustomError
		if !errors.As(err, &ce) || ce.Field != c.field {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := New().Define([]Custom{good, good}); err == nil {
		t.Error("two classes of one name")
	}
	var many []Custom
	for i := range maxCustom + 1 {
		many = append(many, Custom{Class: Class(fmt.Sprint("c", i, "x")), Tag: fmt.Sprintf("类%02d", i), Words: []string{"abc"}})
	}
	if _, err := New().Define(many); err == nil {
		t.Error("too many classes")
	}
}

func TestKnownValues(t *testing.T) {
	set := New().Know([]Known{{Person, "完颜阿骨打"}, {Person, "Li"}, {Address, "云深处"}, {"nobody", "xxxx"}, {Company, "某某公司"}})
	for text, want := range map[string]int{
		"今天完颜阿骨打来过云深处": 2, "Lisa met LI.": 1, "完颜阿骨": 0, "某某公司": 0, // optional: not looked for
	} {
		n := 0
		for _, f := range set.Find(text) {
			if f.Score == 1 {
				n++
			}
		}
		if n != want {
			t.Errorf("%q: %+v", text, set.Find(text))
		}
	}
}

// TestInsistedValues are found whatever else is looked for, and nothing more is.
func TestInsistedValues(t *testing.T) {
	known := []Known{{Person, "完颜阿骨打"}, {Company, "某某公司"}, {"nobody", "xxxx"}, {Person, "李"}}
	for name, set := range map[string]*Set{"nothing": New(IPv4).Only(func(Class) bool { return false }), "all": New(), "optional": New(Company)} {
		got := set.Insist(known).Find("完颜阿骨打在某某公司，xxxx李")
		if len(got) != 2 || got[0].Class != Person || got[1].Class != Company || got[1].Score != 1 {
			t.Errorf("%s: %+v", name, got)
		}
		for i := range len("完颜阿骨打") {
			sc := set.Insist(known).Scanner()
			shown := ""
			for _, text := range []string{"完颜阿骨打"[:i], "完颜阿骨打"[i:], "在"} {
				for _, s := range sc.Write(text) {
					if s.Class == "" {
						shown += s.Text
					}
				}
			}
			if strings.Contains(shown, "完") {
				t.Errorf("%s, cut at %d: %q is shown", name, i, shown)
			}
		}
	}
	if !New(IPv4).Only(func(Class) bool { return false }).Insist(nil).Empty() {
		t.Error("nothing is looked for")
	}
}

func TestAllowedValues(t *testing.T) {
	set := New().Allow([]string{"138-0013-8000", "service@example.com", "雷锋"})
	for _, text := range []string{"13800138000", "１３８ 0013 8000", "Service@Example.com", "同志雷锋先生"} {
		if got := set.Find(text); len(got) != 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if got := set.Find("13800138001"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestMachineAgainstRegexp compares matches with the regexp package's leftmost-longest ones at the same place, over random texts.
func TestMachineAgainstRegexp(t *testing.T) {
	patterns := []string{`[ab]{2,5}c?`, `ab|abc|b{2,3}`, `(?i)x[0-9]{1,3}y`, `\bab\b`, `a.c`, `(?:ab){1,3}`, `[^a]b{1,2}$`, `^a[bc]{1,4}`}
	r := rand.New(rand.NewPCG(3, 4))
	for _, p := range patterns {
		set := defineAll(t, Custom{Class: "own_class", Tag: "自有", Pattern: p})
		d := set.custom[0]
		re := regexp.MustCompile(`^(?:` + p + `)`)
		re.Longest()
		for range 400 {
			var b strings.Builder
			for range r.IntN(12) {
				b.WriteByte("aabbccxy01 \n"[r.IntN(12)])
			}
			row := b.String()
			var w text.Buffer
			w.Read(row, 0, true)
			for i := range w.End() {
				if strings.ContainsAny(p, `^\`) && i > 0 { // the regexp package sees no left context of a slice
					continue
				}
				got, v := (&machine{prog: d.prog}).longest(&w.Window, i)
				want := i
				if m := re.FindStringIndex(row[i:]); m != nil {
					want = i + m[1]
				}
				if v != text.Yes || got != want {
					t.Fatalf("%s in %q at %d: %d, want %d", p, row, i, got, want)
				}
				if d.mayBegin(w.At(i)) == false && want > i {
					t.Fatalf("%s cannot begin with %q", p, w.At(i))
				}
			}
		}
	}
}

// TestCustomIsBounded: a hostile pattern on a hostile text takes time that grows with the text only.
func TestCustomIsBounded(t *testing.T) {
	set := defineAll(t, Custom{Class: "hostile", Tag: "敌对", Pattern: `(?:a?){60}a{60}b`}, Custom{Class: "hostile2", Tag: "敌二", Pattern: `[0-9]{5,100}x`})
	for _, text := range []string{strings.Repeat("a", 20000), strings.Repeat("7", 20000)} {
		only := set.Only(func(c Class) bool { return c == "hostile" || c == "hostile2" })
		if got := only.Find(text); len(got) != 0 {
			t.Errorf("%d findings", len(got))
		}
	}
}

func FuzzDefine(f *testing.F) {
	f.Add(`E[0-9]{6}`, "E123456")
	f.Add(`(?i)\bab{1,3}(?:c|d)`, "abbc")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		set, err := New().Define([]Custom{{Class: "own_class", Tag: "自有", Pattern: pattern}})
		if err != nil || len(text) > 2000 {
			return
		}
		want := scanPieces(set, text)
		checkFindings(t, text, set.Find(text))
		if cut := len(text) / 2; cut > 0 && utf8.ValidString(text) {
			if got := scanPieces(set, text[:cut], text[cut:]); got != want {
				t.Fatalf("%q in %q cut at %d:\n%s\n%s", pattern, text, cut, got, want)
			}
		}
	})
}
