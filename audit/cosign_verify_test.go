package audit

import (
	"bytes"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// Verification says how far each witness has cosigned, and finds a cosignature that was changed, moved or belongs to a checkpoint that is gone.
func TestVerifyChecksCosignatures(t *testing.T) {
	for name, spoil := range map[string]func(*gorm.DB) error{
		"": func(*gorm.DB) error { return nil },
		"changed": func(db *gorm.DB) error {
			return db.Exec("UPDATE audit_cosignatures SET line = REPLACE(line, 'A', 'B') WHERE size = 3").Error
		},
		"moved": func(db *gorm.DB) error {
			return db.Exec("UPDATE audit_cosignatures SET size = 4 WHERE size = 3 AND witness = 'one.example'").Error
		},
		"orphaned": func(db *gorm.DB) error { return db.Exec("UPDATE audit_cosignatures SET size = 7 WHERE size = 5").Error },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
				one, err := checkpoint.NewWitness("one.example", bytes.Repeat([]byte{7}, 32), time.Now)
				must(t, err)
				two, err := checkpoint.NewWitness("two.example", bytes.Repeat([]byte{8}, 32), time.Now)
				must(t, err)
				cfg := testConfig(t.TempDir())
				cfg.Witnesses = []string{one.Key(), two.Key()}
				l := openTest(t, cfg, db, nil, durable.OS{})
				for _, step := range []struct {
					add int
					by  []checkpoint.Witness
				}{{3, []checkpoint.Witness{one, two}}, {1, nil}, {1, []checkpoint.Witness{one}}} {
					appendN(t, l, 0, step.add)
					flush(t, l)
					text, err := l.Checkpoint(t.Context())
					must(t, err)
					for _, w := range step.by {
						line, err := w.Cosign(text)
						must(t, err)
						must(t, l.Cosign(t.Context(), checkpoint.Add(text, line)))
					}
				}
				dropTriggers(t, db)
				must(t, spoil(db))
				r, err := verify.Run(t.Context(), verify.Source{Dir: cfg.Dir, DB: db, VerifierKey: l.VerifierKey(), Witnesses: l.witnesses}, nil)
				must(t, err)
				if name == "" {
					if !r.OK || len(r.Witnessed) != 2 || r.Witnessed[0].Witness != "one.example" || r.Witnessed[0].Size != 5 || r.Witnessed[1].Size != 3 {
						t.Errorf("%+v", r)
					}
					return
				}
				if r.OK || r.Problems[0].Kind != "cosignature" {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}
