package server

import (
	"testing"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/server/config"
)

// TestWhoGetsContentCredentials: with the national suite nobody unless the configuration asks for them, and nobody where it says never; what was signed before can be checked always.
func TestWhoGetsContentCredentials(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode   string
		suite  seal.Suite
		signs  bool
		reason labelfile.Credentials
	}{
		{"", seal.Intl, true, ""},
		{"", "", true, ""},
		{"", seal.GM, false, labelfile.CredentialsSuite},
		{label.CredentialsAlways, seal.GM, true, ""},
		{label.CredentialsNever, seal.Intl, false, ""},
		{label.CredentialsNever, seal.GM, false, ""},
	} {
		cfg := &config.Config{}
		cfg.Label.ContentCredentials, cfg.Audit.Suite = c.mode, c.suite
		a, w, err := contentCredentials(cfg, keyring.FromBytes(make([]byte, 32)))
		if err != nil || len(a.Anchors().Certificates) != 1 || (w.Authority != nil) != c.signs || w.Left != c.reason {
			t.Errorf("%+v: %+v %v", c, w, err)
		}
	}
}
