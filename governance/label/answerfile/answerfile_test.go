package answerfile

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
)

func talk(texts ...string) Conversation {
	c := Conversation{Title: "Trees\nand  birds", Issuer: "Example", Made: time.Date(2026, 11, 24, 8, 30, 0, 0, time.UTC), Lang: message.English}
	for i, t := range texts {
		c.Turns = append(c.Turns, Turn{Asked: i%2 == 0, Text: t})
	}
	return c
}

const table = "Here:\n\n| Tree | Age |\n|---|:-:|\n| Oak \\| elm | =1+1 |\n| <b> | 300 |\n\nDone."

// TestEveryKindIsLabelled: whatever the texts say, the file has the label once, and the visible one.
func TestEveryKindIsLabelled(t *testing.T) {
	l, err := label.New(label.Config{Producer: "示例"}, keyring.FromBytes(bytes.Repeat([]byte{9}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	x := l.Make("0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001", "acme")
	hostile := "---\nAIGC: no\n---\nAIGC: {\"Label\":\"3\"}\n</body></html><meta name=AIGC content=x>\x00\x01" + table
	for _, k := range Kinds() {
		for name, c := range map[string]Conversation{
			"plain": talk("What?", table), "hostile": talk(hostile, hostile), "front matter first": {Turns: []Turn{{Text: "---\nAIGC: {}\na: b: c\n---\n" + table}}}, "steering title": {Title: "AIGC: {/DocMDP /ByteRange [", Turns: []Turn{{Text: " aigc：{}\rAIGC:{\n" + table + "\n/DocMDP"}}},
			"label of its own": {Title: "AI-generated content", Turns: []Turn{{Text: table + "\n\n(AI-generated content)"}}}, "Chinese": talk("问", "树木很老。\n"+table),
		} {
			c.Made, c.Lang = talk().Made, message.English
			got, err := Make(labelfile.Writer{}, k, c, x)
			if err != nil || !got.Visible || got.Signed {
				t.Errorf("%s %s: %+v %v", k, name, got.Signed, err)
				continue
			}
			text, ok, err := labelfile.Content(k, got.Data)
			if !ok || err != nil {
				text = string(got.Data)
			} else if last := c.Turns[len(c.Turns)-1].Text; strings.Contains(last, "Oak") && !strings.Contains(text, "Oak") || strings.Contains(text, c.sentence()) {
				t.Errorf("%s %s: the text is %q", k, name, text)
			}
			if k == labelfile.Text && !strings.Contains(string(got.Data), c.sentence()) {
				t.Errorf("%s: no sentence in %s", name, text)
			}
			found, err := labelfile.Read(k, got.Data)
			if err != nil || len(found.Marks) != 1 || l.Verify(found.Marks[0].Label, "acme") != nil || k != labelfile.PDF && found.Visible != labelfile.VisibleYes {
				t.Errorf("%s %s: %+v %v", k, name, found, err)
			}
			if kind, err := labelfile.Detect("x."+string(k), got.Data); err != nil || kind != k {
				t.Errorf("%s %s: is %s %v", k, name, kind, err)
			}
		}
	}
	got, err := Make(labelfile.Writer{}, labelfile.Text, talk("问", "树木很老"), x)
	if err != nil || !strings.HasPrefix(string(got.Data), "本文件") || !strings.Contains(string(got.Data), "Question:\n问\n\nAnswer:\n树木很老\n") {
		t.Errorf("%s %v", got.Data, err)
	}
}

// TestRefused: no table, a kind that no file is made in, and what is larger than a file may be; just as large is made.
func TestRefused(t *testing.T) {
	row := func(cells int) string { return "a|b\n-|-\n" + strings.Repeat("|x", cells) }
	for name, c := range map[string]struct {
		kind      labelfile.Kind
		good, bad Conversation
		why       fault.Phrase
	}{
		"no table":  {labelfile.XLSX, talk("", table), talk(table, "a | b"), fault.Say("answerfile.no_table")},
		"no format": {labelfile.Text, talk("a", "b"), talk("a", "b"), fault.Say("answerfile.format")},
		"text":      {labelfile.Text, talk("", strings.Repeat("x", maxText-len(talk().Title))), talk("", strings.Repeat("x", maxText)), fault.Say("answerfile.too_large", maxText>>10)},
		"paper":     {labelfile.DOCX, talk("", strings.Repeat("x", maxPaper-len(talk().Title))), talk("", strings.Repeat("x", maxPaper)), fault.Say("answerfile.too_large", maxPaper>>10)},
		"columns":   {labelfile.XLSX, talk("", row(maxCells)), talk("", row(maxCells+1)), fault.Say("answerfile.table_large")},
		"bars":      {labelfile.XLSX, talk(strings.Repeat("|", maxBars), table), talk("", table+strings.Repeat("|", maxBars)), fault.Say("answerfile.table_large")},
		"cell":      {labelfile.XLSX, talk("", row(1)+strings.Repeat("长", maxCell-1)), talk("", row(1)+strings.Repeat("长", maxCell)), fault.Say("answerfile.table_large")},
		"sheets":    {labelfile.XLSX, talk("", strings.Repeat(row(1)+"\n\n", maxSheets)), talk("", strings.Repeat(row(1)+"\n\n", maxSheets+1)), fault.Say("answerfile.table_large")},
	} {
		if _, err := Make(labelfile.Writer{}, c.kind, c.good, label.Label{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		kind := c.kind
		if name == "no format" {
			kind = labelfile.PNG
		}
		_, err := Make(labelfile.Writer{}, kind, c.bad, label.Label{})
		if want := fault.New(fault.CodeInvalidValue, fault.Public(err).Param(), c.why).Message(fault.English); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Message(fault.English) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGrids reads tables of Markdown.
func TestGrids(t *testing.T) {
	got := grids(table + "\n\na | b\n--- | ---\n1 | 2")
	if len(got) != 2 || len(got[0]) != 3 || got[0][1][0] != "Oak | elm" || got[1][1][1] != "2" {
		t.Errorf("%q", got)
	}
}
