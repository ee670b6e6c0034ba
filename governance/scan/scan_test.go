package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

// TestScanBoundsMemory: a text file longer than a text may be is cut at line ends, and a line longer than that is left out.
func TestScanBoundsMemory(t *testing.T) {
	scanOf := func(format Format, text string) ([]Text, Counts) {
		var out bytes.Buffer
		s := New(Config{Set: classify.New(), Format: format, Out: &out, limit: 1000})
		if err := errors.Join(s.Read(t.Context(), "stdin", strings.NewReader(text)), s.Close()); err != nil {
			t.Fatal(err)
		}
		var all []Text
		for dec := json.NewDecoder(&out); dec.More(); {
			var x Text
			if err := dec.Decode(&x); err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		return all, s.Counts()
	}
	line := strings.Repeat("。", 33) + "\n" // 100 bytes
	all, counts := scanOf(PlainText, strings.Repeat(line, 12)+"电话13800138000\n")
	if counts.UnreadTotal != 0 || len(all) != 2 || string(all[0].ID) != `"stdin:1"` || string(all[1].ID) != `"stdin:11"` || len(all[1].Findings) != 1 {
		t.Errorf("%+v: %+v", counts, all)
	}
	for format, over := range map[Format]string{
		PlainText: strings.Repeat("长", 400) + "\n好\n",
		JSONLines: `{"id":1,"text":"` + strings.Repeat("a", 1000) + `"}` + "\n" + `{"id":2,"text":"好"}` + "\n",
	} {
		all, counts = scanOf(format, over)
		want := map[Format]Problem{PlainText: LineTooLong, JSONLines: TextTooLong}[format]
		if !slices.Equal(counts.Unread, []Unread{{"stdin:1", want}}) || len(all) != 1 || !strings.HasPrefix(all[0].Masked, "好") {
			t.Errorf("%s: %+v: %+v", format, counts, all)
		}
	}
}
