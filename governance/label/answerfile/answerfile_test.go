package answerfile

import (
	"bytes"
	"errors"
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
		for name, c := range map[string]Conversation{"plain": talk("What?", table), "hostile": talk(hostile, hostile), "Chinese": talk("问", "树木很老。\n"+table)} {
			got, err := Make(k, c, x)
			if err != nil || !got.Visible {
				t.Errorf("%s %s: %v %v", k, name, got.Visible, err)
				continue
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
	got, err := Make(labelfile.Text, talk("问", "树木很老"), x)
	if err != nil || !strings.HasPrefix(string(got.Data), "本文件") || !strings.Contains(string(got.Data), "Question:\n问\n\nAnswer:\n树木很老\n") {
		t.Errorf("%s %v", got.Data, err)
	}
}

// TestRefused: no table, and a kind that no file is made in.
func TestRefused(t *testing.T) {
	for k, c := range map[labelfile.Kind]Conversation{labelfile.XLSX: talk(table, "a | b"), labelfile.PNG: talk("a", "b")} {
		var f *fault.Error
		if _, err := Make(k, c, label.Label{}); !errors.As(err, &f) || f.Code() != fault.CodeInvalidValue {
			t.Errorf("%s: %v", k, err)
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
