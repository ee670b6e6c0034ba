package adminapi

import (
	"testing"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestStatementsOfTenantsThatAreGone: a bill names the id of a tenant only where there is no tenant any more, not where nobody could ask.
func TestStatementsOfTenantsThatAreGone(t *testing.T) {
	acme := identity.Tenant{Name: "Acme"}
	if name, err := tenantName(acme, nil); name != "Acme" || err != nil {
		t.Error(name, err)
	}
	if name, err := tenantName(identity.Tenant{}, fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), "acme")); name != "" || err != nil {
		t.Error(name, err)
	}
	if _, err := tenantName(identity.Tenant{}, fault.New(fault.CodeDatabaseUnavailable)); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Error("a database that does not answer gives a bill", err)
	}
}
