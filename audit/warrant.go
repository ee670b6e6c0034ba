package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// warrantKey is where the record of a removal has its warrant.
const warrantKey = "warrant"

// warrantFor signs what a removal is about with the keys of the checkpoints: that something is gone is explained by who has these keys, and
// not by whoever can write rows.
func (l *Log) warrantFor(e Event) (string, error) {
	signed, err := l.signer.SignText(warrantText(l.cfg.Origin, e))
	if err != nil {
		return "", fmt.Errorf("sign the removal: %w", err)
	}
	return signed, nil
}

// warranted says whether the record of a removal has a warrant for what it says.
func warranted(v checkpoint.Verifier, e Event) bool {
	text, err := v.OpenText(e.Detail[warrantKey])
	return err == nil && text == warrantText(v.Origin(), e)
}

func warrantText(origin string, e Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/removal\n%q %q %q\n", origin, e.Action, e.Tenant, e.Resource)
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		if k != warrantKey {
			fmt.Fprintf(&b, "%q %q\n", k, e.Detail[k])
		}
	}
	return b.String()
}
