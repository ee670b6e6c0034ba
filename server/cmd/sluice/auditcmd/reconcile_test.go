package auditcmd

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestPrintReconciliation: open findings are said in words and end the command with bad news; none, without.
func TestPrintReconciliation(t *testing.T) {
	hours, mended := int64(48), int64(1)
	out := &bytes.Buffer{}
	a := &app{&cli.App{Stdout: out}}
	r := adminapi.Reconciliation{Hours: &hours, Repaired: &mended, Open: map[string]int64{}}
	if err := a.printReconciliation(r, false); err != nil || !strings.Contains(out.String(), "open findings: 0") {
		t.Errorf("%v: %s", err, out)
	}
	r.Open = map[string]int64{"surplus": 2}
	r.Items = []adminapi.ReconciliationFinding{{Kind: "surplus", Item: "req-1", Tenant: "bank", FirstSeen: time.Unix(0, 0).UTC(), Detail: map[string]string{"hour": "h"}}}
	for _, asJSON := range []bool{false, true} {
		out.Reset()
		if err := a.printReconciliation(r, asJSON); !errors.Is(err, cli.ErrFindings) || !strings.Contains(out.String(), "req-1") {
			t.Errorf("%v: %s", err, out)
		}
		if !asJSON && (!strings.Contains(out.String(), "which no outcome record says") || !strings.Contains(out.String(), "and more")) {
			t.Errorf("%s", out)
		}
	}
}
