package audit

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestSuiteChanges takes a log from the international suite to the national one: first with both keys signing, then with the new one
// alone. What is older stays valid and readable, and each key opens what it signed and nothing else.
func TestSuiteChanges(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		cfg := testConfig(t.TempDir())
		var keys, ids []string
		var proofs []evidence.Proof
		for i, step := range []Config{
			{},
			{Suite: content.GM, CheckpointKeys: []int{1, 2}, SM2Keys: []int{2}},
			{Suite: content.GM, CheckpointKeys: []int{2}, SM2Keys: []int{2}},
		} {
			cfg.Suite, cfg.CheckpointKeys, cfg.SM2Keys = step.Suite, step.CheckpointKeys, step.SM2Keys
			must(t, cfg.Validate())
			l := openTest(t, cfg, db, nil, durable.OS{})
			e := recordtest.Sample(i)
			r, err := l.AppendWith(t.Context(), e, Subject(testKeys(), e.Tenant, "someone"), Text{Direction: "request", Form: "masked", Text: "the question"})
			must(t, err)
			ids = append(ids, r.ID)
			flush(t, l)
			mustVerify(t, l, db)
			keys = append(keys, l.VerifierKey())
			text, err := l.Checkpoint(t.Context())
			must(t, err)
			if n := max(1, len(step.CheckpointKeys)); strings.Count(text, "\n— ") != n || !strings.Contains(text, "\nhash sha256\n") {
				t.Errorf("step %d: %d signatures wanted:\n%s", i, n, text)
			}
			for j, id := range ids { // kept texts of both suites are read, whatever the suite is now
				kept, err := l.Contents(t.Context(), id)
				if err != nil || len(kept) != 1 || kept[0].Text != "the question" {
					t.Errorf("step %d: the text kept in step %d is %+v, %v", i, j, kept, err)
				}
			}
			p, err := l.Prove(t.Context(), ids[0])
			must(t, err)
			proofs = append(proofs, p)
			var bundle bytes.Buffer
			_, err = l.Export(t.Context(), &bundle, export.Selection{By: "test"})
			must(t, err)
			if r, err := evidence.VerifyBundle(t.Context(), bytes.NewReader(bundle.Bytes()), int64(bundle.Len()), l.reads, checkpoint.Witnesses{}, nil); err != nil || !r.OK {
				t.Errorf("step %d: the bundle: %v %+v", i, err, r)
			}
			must(t, l.Close())
		}
		var suites []string
		must(t, db.Table("audit_subject_keys").Order("created").Pluck("suite", &suites).Error)
		if !slices.Equal(suites, []string{"intl", "gm", "gm"}) {
			t.Errorf("the keys of the texts are of the suites %v", suites)
		}
		one, both := keys[0], strings.Fields(keys[2])
		if len(both) != 2 || both[0] != one {
			t.Fatalf("the keys are %q, then %q", one, both)
		}
		// Who knows the first key alone reads the first two checkpoints, who knows the new one alone the last two.
		for i, p := range proofs {
			for name, c := range map[string]struct {
				key string
				ok  bool
			}{"Ed25519": {one, i < 2}, "SM2": {both[1], i > 0}, "both": {keys[2], true}} {
				if _, err := evidence.VerifyProof(c.key, p); c.ok != (err == nil) {
					t.Errorf("proof %d with the key of %s: %v", i, name, err)
				}
			}
		}
		if r, err := verify.Run(t.Context(), verify.Source{Dir: cfg.Dir, DB: db, VerifierKey: both[1]}, nil); err != nil || r.OK {
			t.Errorf("the SM2 key alone verifies checkpoints that it did not sign: %v %+v", err, r)
		}
	})
}

// TestSuiteWithoutTheOldKey: a configuration that turns the old key into one of the other suite does not open the log, and says why.
func TestSuiteWithoutTheOldKey(t *testing.T) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	l := openTest(t, cfg, db, nil, durable.OS{})
	appendN(t, l, 0, 1)
	flush(t, l)
	must(t, l.Close())
	cfg.Suite = content.GM
	_, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), durable.OS{}, durable.OS{})
	if err == nil || !strings.Contains(err.Error(), "sm2_keys") {
		t.Errorf("%v", err)
	}
}

func TestKeyConfig(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string // of the error, "" for none
		sm2  []int
	}{
		"default":          {Config{}, "", nil},
		"gm":               {Config{Suite: content.GM}, "", []int{1}},
		"gm, second key":   {Config{Suite: content.GM, CheckpointKeys: []int{2}}, "", []int{1, 2}},
		"overlap":          {Config{Suite: content.GM, CheckpointKeys: []int{1, 2}, SM2Keys: []int{2}}, "", []int{2}},
		"back again":       {Config{CheckpointKeys: []int{3}, SM2Keys: []int{2}}, "", []int{2}},
		"unknown":          {Config{Suite: "rot13"}, "suite: ", nil},
		"twice":            {Config{CheckpointKeys: []int{1, 1}}, "checkpoint_keys: each", nil},
		"no SM2 key":       {Config{Suite: content.GM, CheckpointKeys: []int{1}, SM2Keys: []int{2}}, "sm2_keys: each", nil},
		"wrong suite":      {Config{Suite: content.GM, CheckpointKeys: []int{1, 2}, SM2Keys: []int{3}}, "none of them is a key of the suite gm", nil},
		"SM2 keys alone":   {Config{SM2Keys: []int{1}}, "none of them is a key of the suite intl", nil},
		"huge and hostile": {Config{Suite: content.GM, CheckpointKeys: []int{1 << 40}}, "checkpoint_keys: each", nil},
	} {
		c.cfg.Dir = "/x"
		err := c.cfg.Validate()
		if c.want == "" && (err != nil || !slices.Equal(c.cfg.withDefaults().SM2Keys, c.sm2)) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, SM2 keys %v", name, err, c.cfg.withDefaults().SM2Keys)
		}
	}
}

// TestCheckpointKeysAreFrozen: keys that came out otherwise would make the log of every installation unreadable.
func TestCheckpointKeysAreFrozen(t *testing.T) {
	const want = "sluice.local/audit+7a22efc4+ActssmEd84xYuIV5JU7pLaLYhuLO1qCkPNGxlt3/a2IK\n" +
		"sluice.local/audit+0df25fcf+/3NtMi1zbTMvdjEKBC1ZFoWzy/Mm1r+gZb4BIy/RRoV2H+V6c/yBss+S8J9sowvT/tO/1neEDJ60U2ZFwm7zdrn+LB62nPXFZriXnnA="
	got, err := VerifierKey(Config{Suite: content.GM, CheckpointKeys: []int{1, 2}, SM2Keys: []int{2}}, testKeys())
	if err != nil || got != want {
		t.Errorf("the keys are %s, %v", got, err)
	}
}
