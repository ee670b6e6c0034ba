package audit

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func other(s string) wal.Attachment { return wal.Attachment{Kind: wal.KindContent, Payload: []byte(s)} }

// TestDamageAmongTexts flips bytes of a real segment: the start is refused rather than a record or its texts dropped.
func TestDamageAmongTexts(t *testing.T) {
	cfg := testConfig(t.TempDir())
	db := dbtest.SQLite(t)
	l := openTest(t, cfg, db, nil, durable.OS{})
	for n := range 3 {
		say(t, l, n, alice)
	}
	seg := l.wal.Segments()[0]
	must(t, l.Close())
	whole, err := os.ReadFile(seg.Path)
	must(t, err)
	frames := wal.Parse(filepath.Base(seg.Path), whole).Records
	for at := 0; at < len(whole)-len(wal.AppendRecord(nil, wal.Record{Payload: frames[2].Payload})); at += 83 {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		must(t, os.WriteFile(seg.Path, b, 0o600))
		if _, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), durable.OS{}, durable.OS{}); err == nil {
			t.Fatalf("a flipped byte at %d of %d went unnoticed", at, len(whole))
		}
		r, err := verify.Run(t.Context(), verify.Source{Dir: cfg.Dir, DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil || r.OK || r.Problems[0].Kind != "wal" {
			t.Fatalf("verify: %+v, %v", r, err)
		}
	}
}

// TestTextsTakenOutOfTheLog leaves a segment whose frames are all sound but whose record lacks what it keeps: it is not shipped without, and
// the verification says so.
func TestTextsTakenOutOfTheLog(t *testing.T) {
	cfg := testConfig(t.TempDir())
	db := dbtest.SQLite(t)
	l := openTest(t, cfg, db, nil, durable.OS{})
	say(t, l, 1, alice)
	seg := l.wal.Segments()[0]
	must(t, l.Close())
	name := filepath.Base(seg.Path)
	b, err := os.ReadFile(seg.Path)
	must(t, err)
	f := wal.Parse(name, b).Records[0]
	for what, attached := range map[string][]wal.Attachment{
		"all": nil, "a text": f.Attached[:2], "the key": f.Attached[1:], "a text for another": {f.Attached[0], f.Attached[1], other("else")},
		"a text more": append(slices.Clone(f.Attached), other("more")),
	} {
		must(t, os.WriteFile(seg.Path, wal.AppendRecord(wal.AppendHeader(nil, name, 1), wal.Record{Seq: 1, Payload: f.Payload, Attached: attached}), 0o600))
		again, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), durable.OS{}, durable.OS{})
		must(t, err)
		if err := again.Flush(t.Context()); err == nil || count(t, db, "audit_events") != 0 {
			t.Errorf("%s: shipped", what)
		}
		if r := verifyLog(t, again, db); r.OK || r.Problems[0].Kind != "wal" {
			t.Errorf("%s: %+v", what, r)
		}
		must(t, again.Close())
	}
}

// TestTextsCountAgainstTheBudget refuses records when what they keep fills the write-ahead log, while outcomes still fit.
func TestTextsCountAgainstTheBudget(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxBytes = 1 << 20
	l := openTest(t, cfg, dbtest.SQLite(t), nil, durable.OS{})
	text := Text{"request", "clear", string(make([]byte, 100<<10))}
	admitted := recordtest.Sample(1)
	admitted.Stage = StageAdmitted
	taken := 0
	for range 20 {
		if _, err := l.AppendWith(t.Context(), admitted, alice, text); err != nil {
			break
		}
		taken++
	}
	if taken < 8 || taken > 9 {
		t.Errorf("%d texts of 100 KiB fit into 90 %% of 1 MiB", taken)
	}
	if _, err := l.Append(t.Context(), recordtest.Sample(2)); err != nil {
		t.Errorf("an outcome: %v", err)
	}
}
