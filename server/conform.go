package server

import (
	"context"

	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/server/config"
)

// ConformKey returns the key by which an installation signs reports about engines. It follows from the master key and is none of the audit log's: a key
// that signs checkpoints signs nothing else. The error is [fs.ErrNotExist] if there is no master key.
func ConformKey(ctx context.Context, cfg *config.Config) (conform.Key, error) {
	keys, err := openKeys(ctx, cfg)
	if err != nil {
		return conform.Key{}, err
	}
	origin := cfg.Audit.Origin
	if origin == "" {
		origin = "sluice.local/audit"
	}
	return conform.NewKey(origin+"/conform", keys.Derive("conform/report/v1"))
}
