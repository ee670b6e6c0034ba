package audit

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func testWitness(t testing.TB, name string, at int64) checkpoint.Witness {
	t.Helper()
	w, err := checkpoint.NewWitness(name, bytes.Repeat([]byte(name[:1]), 32), func() time.Time { return time.Unix(at, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func witnessed(dir string, keys ...string) Config {
	cfg := testConfig(dir)
	cfg.Witnesses = keys
	return cfg
}

// cosignedNote returns the newest checkpoint with the line of a witness.
func cosignedNote(t testing.TB, l *Log, w checkpoint.Witness) string {
	t.Helper()
	note, err := l.Checkpoint(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	line, err := w.Cosign(note)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint.Add(note, line)
}

func lastLine(note string) string {
	lines := strings.SplitAfter(note, "\n")
	return lines[len(lines)-2]
}

// TestCosignRefuses: what no known witness said about a checkpoint of this log is not taken.
func TestCosignRefuses(t *testing.T) {
	db := dbtest.SQLite(t)
	a, stranger := testWitness(t, "a.example", 1_800_000_000), testWitness(t, "c.example", 1_800_000_000)
	l := openTest(t, witnessed(t.TempDir(), a.Key()), db, nil, durable.OS{})
	appendN(t, l, 0, 5)
	flush(t, l)
	note, err := l.Checkpoint(t.Context())
	must(t, err)
	_, top, err := l.Tree.Newest(t.Context())
	must(t, err)
	cosign := func(w checkpoint.Witness, note string) string {
		line, err := w.Cosign(note)
		must(t, err)
		return checkpoint.Add(note, line)
	}
	signed := func(tree checkpoint.Tree) string {
		text, err := l.signer.Sign(tree)
		must(t, err)
		return text
	}
	foreign, err := newSigner(l.cfg, otherKeys(), 1)
	must(t, err)
	other, err := foreign.Sign(top)
	must(t, err)
	impostor, err := checkpoint.NewWitness("a.example", bytes.Repeat([]byte("z"), 32), time.Now)
	must(t, err)
	good := cosign(a, note)
	forged := []byte(good)
	forged[len(forged)-10] ^= 1
	for name, c := range map[string]struct {
		note string
		code fault.Code
	}{
		"nothing":                    {"", fault.CodeInvalidValue},
		"no note":                    {"hello\n", fault.CodeInvalidValue},
		"without a cosignature":      {note, fault.CodeInvalidValue},
		"of a stranger":              {cosign(stranger, note), fault.CodeInvalidValue},
		"in the name of a witness":   {cosign(impostor, note), fault.CodeInvalidValue},
		"a forged cosignature":       {string(forged), fault.CodeInvalidValue},
		"of a log with another key":  {cosign(a, other), fault.CodeInvalidValue},
		"without the log's own":      {strings.Replace(good, "\n— sluice.local/audit ", "\n— sluice.local/other ", 1), fault.CodeInvalidValue},
		"of a size nobody signed":    {cosign(a, strings.Replace(note, "\n5\n", "\n6\n", 1)), fault.CodeInvalidValue},
		"of a size not stored":       {cosign(a, signed(checkpoint.Tree{Size: 4, Root: top.Root})), fault.CodeConflict},
		"of another root":            {cosign(a, signed(checkpoint.Tree{Size: 5, Root: tlog.RecordHash(nil)})), fault.CodeConflict},
		"of a year without calendar": {cosign(testWitness(t, "a.example", seal.LastTime+1), note), fault.CodeInvalidValue},
		"good and forged":            {checkpoint.Add(string(forged), lastLine(good)), fault.CodeInvalidValue},
	} {
		if err := l.Cosign(t.Context(), c.note); !fault.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var rows int64
	must(t, db.Model(&seal.CosignatureRow{}).Count(&rows).Error)
	if rows != 0 {
		t.Errorf("%d cosignatures were taken", rows)
	}
	must(t, l.Cosign(t.Context(), good))
}
