package native

import (
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/engine"
)

// replayProfile changes when the same model, plan and seed may give another answer than before: when the order of a sum, the
// rounding, or the drawing of random numbers changes.
const replayProfile = 3

// replayToken names what decides an answer beside the request: the profile, the model's weights, the precision plan, the chat
// template, the adapter, the watermark of an answer that may be marked (scheme, key, epoch) and the seed. Digests are cut to 48 bits: the audit record has them whole.
func replayToken(m engine.Model, a *adapter, w *engine.Marking, seed uint64) string {
	lora := ""
	if a != nil {
		lora = a.digest
	}
	mark := ""
	if w != nil {
		mark = fmt.Sprintf("%s-%s-%d.", w.Scheme, w.Key, w.Epoch)
	}
	return fmt.Sprintf("r%d.%s.%s.%s.%s.%s%016x", replayProfile, short(m.Digest), m.Precision, short(m.Template), short(lora), mark, seed)
}

func short(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	if hex == "" {
		return "-"
	}
	return hex[:min(12, len(hex))]
}
