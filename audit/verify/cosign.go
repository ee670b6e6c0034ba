package verify

import (
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/seal"
)

// cosignatures checks what known witnesses signed. The checkpoints themselves were held against the records before.
func (w *walk) cosignatures(db *gorm.DB) error {
	if len(w.witnesses.Names()) == 0 {
		return nil
	}
	for size, witness := int64(-1), ""; ; {
		var rows []signedRow
		err := db.Table("audit_cosignatures AS s").Select("s.size", "s.witness", "s.line", "c.note").
			Joins("LEFT JOIN audit_checkpoints AS c ON c.size = s.size").
			Where("s.size > ? OR s.size = ? AND s.witness > ?", size, size, witness).Order("s.size, s.witness").Limit(verifyBatch).Find(&rows).Error
		if err != nil {
			return fmt.Errorf("read cosignatures: %w", err)
		}
		for _, r := range rows {
			w.cosignature(r)
			size, witness = r.Size, r.Witness
		}
		if len(rows) < verifyBatch {
			break
		}
	}
	slices.SortFunc(w.report.Witnessed, func(a, b seal.Witnessed) int { return strings.Compare(a.Witness, b.Witness) })
	return nil
}

// signedRow is what a witness signed.
type signedRow struct {
	Size          int64
	Witness, Line string
	Note          *string // nil: there is no such checkpoint
}

func (w *walk) cosignature(r signedRow) {
	if r.Note == nil {
		w.problem("cosignature", "", r.Size, "witness "+r.Witness+" signed a checkpoint that is gone")
		return
	}
	_, found, err := w.v.OpenCosigned(checkpoint.Add(*r.Note, r.Line), w.witnesses)
	if err != nil {
		w.problem("cosignature", "", r.Size, "the cosignature of "+r.Witness+" does not hold: "+err.Error())
		return
	}
	for _, c := range found {
		next := seal.Witnessed{Witness: c.Witness, Size: r.Size, Time: c.Time}
		if i := slices.IndexFunc(w.report.Witnessed, func(o seal.Witnessed) bool { return o.Witness == c.Witness }); i >= 0 {
			w.report.Witnessed[i] = next // they come by size
		} else {
			w.report.Witnessed = append(w.report.Witnessed, next)
		}
	}
}
