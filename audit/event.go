package audit

import (
	"encoding/hex"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Event is a record; the others are its parts. Package record says what they mean.
type (
	Event   = record.Event
	Actor   = record.Actor
	Model   = record.Model
	Finding = record.Finding
	Usage   = record.Usage
	Latency = record.Latency
	Stage   = record.Stage
)

// The stages, which package record defines.
const (
	StageAdmitted = record.StageAdmitted
	StageOutcome  = record.StageOutcome
	StageAction   = record.StageAction
)

// Receipt says where a record was written. ID is the handle for [Log.Get] and [Log.Prove].
type Receipt struct {
	ID     string
	Writer string
	Seq    uint64
}

// Digest returns the keyed digest of a prompt or an answer: equal texts of one tenant have equal digests, and nobody without the
// master key can test a guess.
func Digest(keys *keyring.Ring, tenant, text string) string {
	return hex.EncodeToString(keys.MAC("audit/content/v1", tenant, text))
}
