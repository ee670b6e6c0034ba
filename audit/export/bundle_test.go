package export_test

import (
	"bytes"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// A bundle of everything shows that it is complete; one of a tenant and a time holds those records and no others, and says that it cannot.
func TestExport(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		if _, err := l.Export(t.Context(), &bytes.Buffer{}, export.Selection{}); err == nil {
			t.Error("an empty log was exported")
		}
		l.Append(0, 20)
		for n := range 7 {
			e := recordtest.Sample(100 + n)
			e.Tenant = "other"
			l.AppendEvent(e)
		}
		l.Flush()
		l.AppendEvent(recordtest.Sample(999)) // not sealed yet: not evidence yet
		reads, err := checkpoint.NewVerifier(l.VerifierKey())
		if err != nil {
			t.Fatal(err)
		}
		at := func(n int) int64 { return recordtest.Sample(n).Time }
		for name, k := range map[string]struct {
			x        export.Selection
			records  int64
			complete bool
		}{
			"all":       {export.Selection{By: "auditor"}, 27, true},
			"a tenant":  {export.Selection{Tenant: "other"}, 7, false},
			"a time":    {export.Selection{From: at(5), To: at(9)}, 4, false},
			"both":      {export.Selection{Tenant: "other", From: at(103)}, 4, false},
			"nothing":   {export.Selection{Tenant: "nobody"}, 0, false},
			"an attack": {export.Selection{Tenant: "x' OR '1'='1"}, 0, false},
		} {
			var zip bytes.Buffer
			m, err := l.Export(t.Context(), &zip, k.x)
			if err != nil || m.Records != k.records || m.Size != 27 {
				t.Errorf("%s: %+v, %v", name, m, err)
				continue
			}
			r, err := evidence.VerifyBundle(t.Context(), bytes.NewReader(zip.Bytes()), int64(zip.Len()), reads, checkpoint.Witnesses{}, nil)
			if err != nil || !r.OK || r.Records != k.records || r.Complete != k.complete {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	})
}
