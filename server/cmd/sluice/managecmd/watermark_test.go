package managecmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestFindingIsPrinted: each verdict is said in words, with what it rests on and what was tried.
func TestFindingIsPrinted(t *testing.T) {
	t.Parallel()
	key := &adminapi.WatermarkKey{Id: "0a1b", Number: 3, CreatedAt: time.Unix(0, 0).UTC()}
	reason := func(r adminapi.WatermarkFindingReason) *adminapi.WatermarkFindingReason { return &r }
	for name, c := range map[string]struct {
		f    adminapi.WatermarkFinding
		want string
	}{
		"found":      {adminapi.WatermarkFinding{Verdict: adminapi.Found, Log10P: -40.2, Key: key}, "10^-40 at most. Key 0a1b, epoch 3"},
		"rounded up": {adminapi.WatermarkFinding{Verdict: adminapi.Found, Log10P: -9.6, Key: key}, "10^-9 at most."},
		"a passage":  {adminapi.WatermarkFinding{Verdict: adminapi.Found, Log10P: -9.6, Key: key, BeginByte: new(4), EndByte: new(8)}, "from byte 4 to byte 8, which is 40 % of the text: \"text\""},
		"older keys": {adminapi.WatermarkFinding{Verdict: adminapi.NotFound, UntriedKeys: 3}, "3 older keys were not tried"},
		"damaged":    {adminapi.WatermarkFinding{Verdict: adminapi.NotFound, UnreadableKeys: &[]string{"0c", "0d"}}, "do not open: 0c, 0d."},
		"indication": {adminapi.WatermarkFinding{Verdict: adminapi.Indication, Log10P: -5.25, Key: key}, "10^-5.2. Key 0a1b, epoch 3"},
		"not found":  {adminapi.WatermarkFinding{Verdict: adminapi.NotFound, P: 0.5}, "Not found (p 0.5)"},
		"short":      {adminapi.WatermarkFinding{Verdict: adminapi.CannotSay, Reason: reason(adminapi.WatermarkFindingReasonShort), CountedTokens: 12, LeastTokens: 64}, "12 tokens count, and it takes 64"},
		"no key":     {adminapi.WatermarkFinding{Verdict: adminapi.CannotSay, Reason: reason(adminapi.WatermarkFindingReasonKey)}, "has no key"},
		"no model":   {adminapi.WatermarkFinding{Verdict: adminapi.CannotSay, Reason: reason(adminapi.WatermarkFindingReasonTokenizer)}, "no model"},
	} {
		c.f.Tokens, c.f.Keys, c.f.Readings = 77, 5, 2
		var out bytes.Buffer
		(&app{&cli.App{Stdout: &out, Environ: []string{"SLUICE_LANG=en"}}}).printFinding("the text, ", c.f)
		if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "Tokens 77") || !strings.Contains(out.String(), "keys tried 5") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

// TestTextIsRead: from a file or the standard input, whole or not at all.
func TestTextIsRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "letter.txt")
	if err := os.WriteFile(file, []byte("a letter"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  []string
		stdin string
		want  string
		ok    bool
	}{
		{[]string{file}, "", "a letter", true},
		{[]string{"-"}, "words", "words", true},
		{nil, strings.Repeat("x", tenantmark.MaxText), strings.Repeat("x", tenantmark.MaxText), true},
		{nil, "", "", false},
		{nil, strings.Repeat("x", tenantmark.MaxText+1), "", false},
		{[]string{file + "x"}, "", "", false},
		{nil, "\ufeffone\r\ntwo\r\n", "one\ntwo\n", true},
		{nil, "not \xff text", "", false},
	} {
		got, err := (&app{&cli.App{Stdin: strings.NewReader(c.stdin)}}).readText(c.args)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%v: %d bytes, %v", c.args, len(got), err)
		}
	}
}
