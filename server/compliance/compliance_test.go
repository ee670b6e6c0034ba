package compliance

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

var update = flag.Bool("update", false, "write the reports in testdata anew")

const root = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// logKey is a public key of a log named sluice.example.
func logKey(t *testing.T) string {
	t.Helper()
	s, err := checkpoint.NewSigner("sluice.example", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s.Key()
}

// golden compares a document, written as Markdown, with a file, and writes it in the other formats.
func golden(t *testing.T, name string, d report.Document) {
	t.Helper()
	var got bytes.Buffer
	if err := report.Write(&got, report.Markdown, d); err != nil {
		t.Fatal(err)
	}
	for _, f := range []report.Format{report.PDF, report.DOCX} {
		if err := report.Write(&bytes.Buffer{}, f, d); err != nil {
			t.Errorf("format %d: %v", f, err)
		}
	}
	file := filepath.Join("testdata", name+".md")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the report differs from %s; run with -update and read the difference:\n%s", file, &got)
	}
}

func TestVerificationReports(t *testing.T) {
	at := time.Date(2026, 11, 23, 15, 4, 5, 0, time.UTC)
	for name, r := range map[string]verify.Report{
		"passed": {
			OK: true, Records: 1234567, Sealed: 1234560, Unsealed: 7, WALRecords: 42, CheckpointSize: 1234560, Root: root, Least: 1000,
			Witnessed: []seal.Witnessed{{Witness: "witness.example", Size: 1234000, Time: at}, {Witness: "new.example"}},
			Findings:  []verify.Problem{{Kind: "torn", Index: -1, Cause: "segment a-1.wal ends in an unfinished write (12 bytes)"}},
		},
		"failed": {
			Records: 9, Sealed: 9, CheckpointSize: 9, Root: root, More: true,
			Problems: []verify.Problem{{Kind: "leaf", Record: "r|1", Index: 5, Cause: "the payload differs\n# from its leaf"}, {Kind: "new kind", Index: -1, Cause: "x"}},
		},
		"range": {OK: true, Sealed: 100, CheckpointSize: 500, Root: root, FirstIndex: 100, UntilIndex: 200},
	} {
		for l, lang := range []string{"en", "zh"} {
			d, err := Verification{VerifierKey: logKey(t), Finished: at, Program: "v1", Result: r}.Document(message.Lang(l))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "verification-"+name+"."+lang, d)
		}
	}
	if _, err := (Verification{VerifierKey: "no key", Finished: at}).Document(message.English); err == nil {
		t.Error("a key that is none was accepted")
	}
}

// bundleOf writes a zip with a table of records as bundles have it.
func bundleOf(t *testing.T, rows ...string) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("records.csv")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "\ufeffindex,time,id,stage,tenant,actor_id,actor_name,action,outcome\n"+strings.Join(rows, "\n")+"\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func TestBundleReports(t *testing.T) {
	m := evidence.Manifest{
		Origin: "sluice.example", Key: "sluice.example+abcd", Tenant: "demo", From: 1_000_000, Created: time.Date(2026, 11, 23, 15, 4, 5, 0, time.UTC), By: "审计员",
		Records: 3, Size: 10, Root: root, Files: []evidence.File{{Name: "records.csv", Bytes: 1234, SHA256: root}},
	}
	rows := []string{
		"4,2026-11-23T15:00:00.000000Z,a,admitted,demo,k1,张三,chat.completions,", "5,2026-11-23T15:00:01.000000Z,b,outcome,demo,k1,张三,chat.completions,ok",
		"7,2026-11-23T15:00:02.000000Z,c,outcome,demo,k2,,chat.completions,ok",
	}
	z := bundleOf(t, rows...)
	b, err := ReadBundle("november.zip", z, z.Size(), m)
	if err != nil {
		t.Fatal(err)
	}
	b.size, b.digest = 4321, root // those of the zip change with the library that packs it
	golden(t, "bundle.en", b.Document(message.English))
	golden(t, "bundle.zh", b.Document(message.Chinese))

	for want, m := range map[string]evidence.Manifest{"is complete": {Least: 3, Size: 9}, "from index 3 to 7": {Least: 3, Until: 8, Size: 9}, "selection": {To: 5}} {
		if got := (Bundle{manifest: m}).complete(inLanguage(message.English)); !strings.Contains(got, want) {
			t.Errorf("%+v: %s", m, got)
		}
	}
}

func TestPeriod(t *testing.T) {
	for want, p := range map[string][2]int64{
		"all": {}, "from 1970-01-01T00:00:01Z": {1e6, 0}, "before 1970-01-01T00:00:02Z": {0, 2e6}, "from 1970-01-01T00:00:01Z, before 1970-01-01T00:00:02Z": {1e6, 2e6},
	} {
		if got := period(p[0], p[1]).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLongBundle: the report lists the first records and counts all.
func TestLongBundle(t *testing.T) {
	var rows []string
	for i := range listed + 5 {
		rows = append(rows, fmt.Sprintf("%d,t,id,outcome,demo,k,n,act,ok", i))
	}
	z := bundleOf(t, rows...)
	b, err := ReadBundle("b.zip", z, z.Size(), evidence.Manifest{})
	if err != nil || len(b.records) != listed || len(b.groups) != 1 || b.groups[0].count != listed+5 {
		t.Errorf("%d records, %v, %v", len(b.records), b.groups, err)
	}
}

func TestBrokenBundles(t *testing.T) {
	for name, z := range map[string]*bytes.Reader{
		"no zip": bytes.NewReader([]byte("x")), "a row too short": bundleOf(t, "1,2"), "a quote": bundleOf(t, `"`),
	} {
		if _, err := ReadBundle("b.zip", z, z.Size(), evidence.Manifest{}); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// TestProblemNamesAreTheConsoles: a kind of problem has one name in each language, every kind has one, and is in one check.
func TestProblemNamesAreTheConsoles(t *testing.T) {
	for l, lang := range []string{"en", "zh"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "web", "src", "locales", lang+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var texts struct {
			Label struct{ Problem map[string]string }
		}
		if err := json.Unmarshal(b, &texts); err != nil || len(texts.Label.Problem) < 20 {
			t.Fatalf("%d names, %v", len(texts.Label.Problem), err)
		}
		for kind, want := range texts.Label.Problem {
			if got := ProblemName(kind, message.Lang(l)); got != want {
				t.Errorf("%s is %q here and %q in the console", kind, got, want)
			}
			n := 0
			for _, c := range checks() {
				n += strings.Count(" "+strings.Join(c.kinds, " ")+" ", " "+kind+" ")
			}
			if n != 1 {
				t.Errorf("%s is in %d checks", kind, n)
			}
		}
	}
}
