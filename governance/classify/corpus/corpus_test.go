package corpus

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	corpusdata "github.com/sluice-project/sluice/governance/classify/testdata/corpus"
)

// example is a small corpus of this package's own.
func example() fstest.MapFS {
	var frames strings.Builder
	frames.WriteString("# comments and empty lines do not count\n\n{person}{person}，还有{person#1}和{person#1}\n")
	for _, c := range allClasses() {
		frames.WriteString(c + "是{" + c + "}，电话{cn_mobile}、{cn_mobile}，" + `{"k":"{` + c + `#1/标签}"}，{date}再说。` + "\n")
	}
	return fstest.MapFS{
		"frames/tune/bank.txt": {Data: []byte(frames.String())},
		"negatives/tune.txt":   {Data: []byte("拨打{hotline}\n订单{order}共{amount}\n没有任何信息。\n")},
		"lines/tune.txt":       {Data: []byte("找⟪person:张三⟫，号⟪cn_mobile:13800138000⟫\n什么也没有\n")},
	}
}

func build(t *testing.T, files fstest.MapFS, min Minimums) Set {
	t.Helper()
	source, err := Read(files, "tune")
	if err != nil {
		t.Fatal(err)
	}
	set, err := source.Build(min)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestSpansFollowTheText: whatever the noise, spans are in order, apart and inside, and no separator of the frame is inside of them.
func TestSpansFollowTheText(t *testing.T) {
	set := build(t, example(), Minimums{PerClass: 300, Spans: 20000, Negatives: 60})
	noises := map[string]int{}
	for _, d := range set.Documents {
		if err := d.check(); err != nil {
			t.Fatalf("%s: %v in %q", d.ID, err, d.Text)
		}
		noises[d.Noise()]++
		for _, s := range d.Spans {
			v := string([]rune(d.Text)[s.Start:s.End])
			if strings.TrimSpace(v) != v || strings.ContainsAny(v, "{}、") {
				t.Fatalf("%s: the value is %q in %q", d.ID, v, d.Text)
			}
		}
	}
	for _, n := range Noises() {
		if noises[n] < 50 {
			t.Errorf("%d documents with %s", noises[n], n)
		}
	}
	for class, n := range set.Spans() {
		if n < 300 && strings.Contains(strings.Join(DefaultClasses(), " "), class) {
			t.Errorf("%d values of %s", n, class)
		}
	}
}

// TestSpansHoldTheValuesThatWerePutIn draws the values once more and compares them with what stands at the spans, as a reader would
// who sees through the noise.
func TestSpansHoldTheValuesThatWerePutIn(t *testing.T) {
	see := func(s string) string {
		s = numeral.Replace(s)
		return strings.Map(func(r rune) rune {
			switch {
			case r > 0xff00 && r < 0xff5f:
				r -= 0xfee0
			case r == '。':
				r = '.'
			}
			switch r {
			case 'O':
				return '0'
			case 'l', 'I':
				return '1'
			case ' ', '\n', '\u3000':
				return -1
			}
			return r
		}, s)
	}
	source, err := Read(example(), "tune")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range source.frames {
		for _, noise := range Noises() {
			for n := range 20 {
				d := f.document("tune", seed, noise, n)
				i := 0
				for _, p := range f.fill(newRandom(seed, "tune", f.family, f.line, noise, strconv.Itoa(n)), noise) {
					if p.class == "" {
						continue
					}
					s := d.Spans[i]
					got := string([]rune(d.Text)[s.Start:s.End])
					if s.Type != p.class || see(got) != see(p.text) {
						t.Fatalf("%s: %s %q, put in was %s %q", d.ID, s.Type, got, p.class, p.text)
					}
					if s.WellFormed && noise != "fullwidth" && noise != "numerals" && got != p.text {
						t.Fatalf("%s: %q is said to be well-formed, put in was %q", d.ID, got, p.text)
					}
					i++
				}
				if i != len(d.Spans) {
					t.Fatalf("%s: %d values, %d spans", d.ID, i, len(d.Spans))
				}
			}
		}
	}
}

// numeral reads Chinese numerals as digits.
var numeral = strings.NewReplacer(
	"零", "0", "〇", "0", "洞", "0", "一", "1", "幺", "1", "壹", "1", "二", "2", "两", "2", "贰", "2", "三", "3", "叁", "3", "四", "4", "肆", "4",
	"五", "5", "伍", "5", "六", "6", "陆", "6", "七", "7", "拐", "7", "柒", "7", "八", "8", "捌", "8", "九", "9", "勾", "9", "玖", "9")

// TestNumeralsReadBack: Chinese numerals read back are digits again.
func TestNumeralsReadBack(t *testing.T) {
	n := 0
	for _, d := range build(t, example(), Minimums{PerClass: 200}).Documents {
		if d.Noise() != "numerals" {
			continue
		}
		for _, s := range d.Spans {
			if s.Type != "imei" {
				continue
			}
			v := numeral.Replace(string([]rune(d.Text)[s.Start:s.End]))
			if withLuhn(v[:14]) != v {
				t.Errorf("%s: %q has another check digit", d.ID, v)
			}
			n++
		}
	}
	if n < 20 {
		t.Errorf("only %d", n)
	}
}

// TestDamageIsSaid: a value that noise changed is not well-formed.
func TestDamageIsSaid(t *testing.T) {
	damaged := 0
	for _, d := range build(t, example(), Minimums{PerClass: 200}).Documents {
		for _, s := range d.Spans {
			v := string([]rune(d.Text)[s.Start:s.End])
			switch {
			case !s.WellFormed && d.Noise() != "ocr":
				t.Errorf("%s: %q is said to be damaged", d.ID, v)
			case !s.WellFormed:
				damaged++
			case s.Type == "iccid" && d.Noise() == "ocr" && withLuhn(v[:19]) != v:
				t.Errorf("%s: %q is damaged", d.ID, v)
			}
		}
	}
	if damaged < 50 {
		t.Errorf("only %d values are damaged", damaged)
	}
}

func TestSameValueWithinAFrame(t *testing.T) {
	f := frame{line: "x"}
	var err error
	if f.parts, err = parseFrame("{cn_mobile#1}和{cn_mobile#1}和{cn_mobile}和{cn_mobile#2}"); err != nil {
		t.Fatal(err)
	}
	d := f.document("tune", "seed", "clean", 0)
	v := strings.Split(d.Text, "和")
	if v[0] != v[1] || v[0] == v[2] || v[2] == v[3] {
		t.Error(d.Text)
	}
}

func TestBracesThatAreText(t *testing.T) {
	for line, want := range map[string]int{`{"a":{"b":1}}`: 1, "/users/{id}/x": 1, "电话/{cn_mobile}": 2, "{ }{": 1, "{person}": 1} {
		if parts, err := parseFrame(line); err != nil || len(parts) != want {
			t.Errorf("%s: %d parts, %v", line, len(parts), err)
		}
	}
}

func TestMistakesNameFileAndLine(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"frames/tune/bank.txt", "好\n\n{nobody}", "frames/tune/bank.txt:3: {nobody} is neither a class nor a filler"},
		{"frames/tune/bank.txt", "{person", "bank.txt:1: the placeholder that begins with"},
		{"frames/tune/bank.txt", "{person#x}", "not of the form"},
		{"frames/tune/bank.txt", "{person}\n{person}", "bank.txt:2: the line is there twice"},
		{"frames/tune/bank.txt", "\xff", "not UTF-8"},
		{"negatives/tune.txt", "找{person}", "negatives/tune.txt:1: a hard negative holds fillers only"},
		{"lines/tune.txt", "⟪person:张三", "lines/tune.txt:1: the mark that begins with"},
		{"lines/tune.txt", "张三⟫", "closes nothing"},
		{"lines/tune.txt", "⟪name:张三⟫", "does not begin with a class"},
		{"lines/tune.txt", "⟪person:⟫", "holds no text"},
		{"lines/tune.txt", "⟪person:a⟪qq:b⟫⟫", "is not closed"},
		{"own.jsonl", `{"id":"a","text":"张三","spans":[{"start":0,"end":3,"type":"person"}]}`, "own.jsonl: document 1: span 1 is [0, 3)"},
		{"own.jsonl", `{"id":"a","text":"张三","spans":[{"start":0,"end":2,"type":"x"}]}`, "does not exist"},
		{"own.jsonl", `{"id":"a"`, "document 1"},
		{"README", "", "nothing found"},
	} {
		_, err := Read(fstest.MapFS{c.file: {Data: []byte(c.text)}}, "tune")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.file, c.text, err, c.want)
		}
	}
}

func TestMissingFramesAreNamed(t *testing.T) {
	source, err := Read(fstest.MapFS{"frames/tune/bank.txt": {Data: []byte("{person}好")}}, "tune")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = source.Build(Published()); err == nil || !strings.Contains(err.Error(), "write more frames with {cn_resident_id}") {
		t.Error(err)
	}
}

// TestJSONLinesRoundTrip: what Write writes, Read reads.
func TestJSONLinesRoundTrip(t *testing.T) {
	set := build(t, example(), Minimums{})
	var out bytes.Buffer
	if err := set.Write(&out); err != nil {
		t.Fatal(err)
	}
	back, err := Load(fstest.MapFS{"own.jsonl": {Data: out.Bytes()}}, "tune")
	if err != nil {
		t.Fatal(err)
	}
	if back.Digest() != set.Digest() {
		t.Error("the documents differ")
	}
	if d := set.Documents[len(set.Documents)-1]; d.Family() != Negatives || (Document{ID: "x"}).Family() != "other" {
		t.Error(d.ID)
	}
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{"{person}和{cn_mobile#1/标签}", `{"a":"{qq}"}`, "{", "}", "{person", "{x}", "⟪person:张三⟫", "⟪⟫", "a⟪b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if parts, err := parseFrame(line); err == nil {
			d := frame{line: line, parts: parts}.document("tune", "seed", "ocr", 0)
			if err := d.check(); err != nil {
				t.Error(err)
			}
		}
		if text, spans, err := parseMarked(line); err == nil {
			if err := (Document{Text: text, Spans: spans}).check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPublishedSets: both sets are large enough, their spans are right, and their bytes are those that figures were published for.
// After a change of frames or of the generator: SLUICE_UPDATE=1 go test ./governance/classify/corpus.
func TestPublishedSets(t *testing.T) {
	got := map[string]string{}
	for _, name := range []string{"tune", "gate"} {
		set, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range set.Documents {
			if err := d.check(); err != nil {
				t.Fatalf("%s: %v", d.ID, err)
			}
		}
		again, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got[name] = set.Digest(); again.Digest() != got[name] {
			t.Errorf("%s is another set the second time", name)
		}
	}
	file := filepath.Join("testdata", "digests.json")
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != string(text) {
		t.Errorf("the sets are %s\nand %s says %s", text, file, want)
	}
}

// TestSetsShareNothing: no frame, negative or line of the gate set is in the tuning set.
func TestSetsShareNothing(t *testing.T) {
	in := map[string]string{}
	for _, name := range []string{"tune", "gate"} {
		s, err := Read(corpusdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		note := func(line string) {
			key := strings.Map(func(r rune) rune {
				if strings.ContainsRune(" \t\u3000，。！？、；：,.!?;:", r) {
					return -1
				}
				return r
			}, line)
			if other, ok := in[key]; ok && other != name {
				t.Errorf("in both sets: %s", line)
			}
			in[key] = name
		}
		for _, f := range append(s.frames, s.negatives...) {
			note(f.line)
		}
		for _, d := range s.lines {
			note(d.Text)
		}
	}
}
