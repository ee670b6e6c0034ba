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
		"indication": {adminapi.WatermarkFinding{Verdict: adminapi.Indication, Log10P: -5.25, Key: key}, "10^-5.2. Key 0a1b, epoch 3"},
		"not found":  {adminapi.WatermarkFinding{Verdict: adminapi.NotFound, P: 0.5}, "Not found (p 0.5)"},
		"short":      {adminapi.WatermarkFinding{Verdict: adminapi.CannotSay, Reason: reason(adminapi.WatermarkFindingReasonShort), CountedTokens: 12, LeastTokens: 64}, "12 tokens count, and it takes 64"},
		"no key":     {adminapi.WatermarkFinding{Verdict: adminapi.CannotSay, Reason: reason(adminapi.WatermarkFindingReasonKey)}, "ever marked"},
		"no model":   {adminapi.WatermarkFinding{Verdict: adminapi.CannotSay, Reason: reason(adminapi.WatermarkFindingReasonTokenizer)}, "no model"},
	} {
		c.f.Tokens, c.f.Keys, c.f.Readings = 77, 5, 2
		var out bytes.Buffer
		if err := (&app{&cli.App{Stdout: &out, Environ: []string{"SLUICE_LANG=en"}}}).printFinding(c.f); err != nil {
			t.Fatal(err)
		}
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
	} {
		got, err := (&app{&cli.App{Stdin: strings.NewReader(c.stdin)}}).readText(c.args)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%v: %d bytes, %v", c.args, len(got), err)
		}
	}
}
