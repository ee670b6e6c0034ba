package retention

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

// AttestationKey is where the record of a removal has its attestation.
const AttestationKey = "warrant"

// Attest signs what a removal is about with the keys of the checkpoints: who has these keys explains that something is gone, and not whoever
// can write rows.
func Attest(signer checkpoint.Signer, e record.Event) (string, error) {
	signed, err := signer.SignText(attestedText(signer.Verifier().Origin(), e))
	if err != nil {
		return "", fmt.Errorf("sign the removal: %w", err)
	}
	return signed, nil
}

// Attested says whether the record of a removal has an attestation of what it says.
func Attested(v checkpoint.Verifier, e record.Event) bool {
	text, err := v.OpenText(e.Detail[AttestationKey])
	return err == nil && text == attestedText(v.Origin(), e)
}

func attestedText(origin string, e record.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/removal\n%q %q %q\n", origin, e.Action, e.Tenant, e.Resource)
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		if k != AttestationKey {
			fmt.Fprintf(&b, "%q %q\n", k, e.Detail[k])
		}
	}
	return b.String()
}
