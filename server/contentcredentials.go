package server

import (
	"context"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/server/config"
)

// Credentials returns what proves the content credentials of cfg's installation, and what labels its files: without them where the configuration says so, and with the national
// suite, whose algorithms C2PA does not know. The error is [fs.ErrNotExist] if there is no master key.
func Credentials(ctx context.Context, cfg *config.Config) (*c2pa.Authority, labelfile.Writer, error) {
	keys, err := openKeys(ctx, cfg)
	if err != nil {
		return nil, labelfile.Writer{}, err
	}
	return contentCredentials(cfg, keys)
}

func contentCredentials(cfg *config.Config, keys *keyring.Ring) (*c2pa.Authority, labelfile.Writer, error) {
	a, err := c2pa.NewAuthority(c2pa.Config{Keys: keys, Producer: cfg.Label.Name(), Generation: cfg.Label.CredentialsKey, Revoked: cfg.Label.CredentialsRevoked})
	if err != nil {
		return nil, labelfile.Writer{}, err
	}
	switch {
	case cfg.Label.ContentCredentials == label.CredentialsNever:
		return a, labelfile.Writer{}, nil
	case cfg.Label.ContentCredentials != label.CredentialsAlways && cfg.Audit.Suite == seal.GM:
		return a, labelfile.Writer{Left: labelfile.CredentialsSuite}, nil
	default:
		return a, labelfile.Writer{Authority: a}, nil
	}
}
