package erasure

import (
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/pseudonym"
)

// deletion is the part of an erasure that goes in the transaction of the log.
type deletion struct {
	eraser   *Eraser
	target   Target
	removal  *pseudonym.Erasure
	approval string      // to be spent; "" for none
	digest   string      // of it
	records  int64       // of the person
	stays    []Remainder // when all is done; filled in by Destroy
}

// Take implements retention.Beside.
func (w *deletion) Take(tx *gorm.DB) (retention.Reach, error) {
	err := w.removal.Lock(tx)
	return holdReach(w.target, w.removal.Found), err
}

// Destroy implements retention.Beside. The approval first: it can still refuse. What stays is looked for when the rest is gone.
func (w *deletion) Destroy(tx *gorm.DB) (map[string]string, error) {
	if w.approval != "" {
		if err := w.eraser.cfg.Approvals.Spend(tx, approval.KindErasure, w.approval, w.digest); err != nil {
			return nil, err
		}
	}
	if err := w.removal.Delete(tx); err != nil {
		return nil, err
	}
	beside, err := w.destroyBeside(tx)
	if err != nil {
		return nil, err
	}
	if w.stays, err = w.eraser.remainders(tx.Statement.Context, tx, w.target, w.records, w.removal.Found); err != nil {
		return nil, err
	}
	out := map[string]string{"values": number(w.removal.Found.Values), "conversations": number(w.removal.Found.Scopes), "answers": "0", "stays": Codes(w.stays)}
	for what, n := range beside {
		out[what] = number(n)
	}
	return out, nil
}

// destroyBeside removes what else was made for the person.
func (w *deletion) destroyBeside(tx *gorm.DB) (map[string]int64, error) {
	if w.target.Conversation != nil || w.eraser.cfg.Beside == nil {
		return nil, nil //nolint:nilnil // there is nothing
	}
	return w.eraser.cfg.Beside(tx, w.target.Tenant, w.target.Subject)
}

// destroy is Destroy where nobody certifies it.
func (w *deletion) destroy(tx *gorm.DB) error {
	_, err := w.Destroy(tx)
	return err
}
