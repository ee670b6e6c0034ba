package audit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/internal/keyring"
)

// maxCheckpointKey bounds the numbers of checkpoint keys: all up to the one in use are accepted.
const maxCheckpointKey = 64

// VerifierKey returns the public key of the checkpoints as text, in the signed-note format.
func (l *Log) VerifierKey() string { return l.key }

// Origin is the name of the log.
func (l *Log) Origin() string { return l.cfg.Origin }

// VerifierKey returns the public keys that a log of this configuration and master key signs with or did, without opening it.
func VerifierKey(cfg Config, keys *keyring.Ring) (string, error) {
	s, err := allKeys(cfg.withDefaults(), keys)
	if err != nil {
		return "", err
	}
	return s.Key(), nil
}

// newSigner returns the signer with the keys of these numbers, each of the suite that the configuration says.
func newSigner(cfg Config, keys *keyring.Ring, numbers ...int) (checkpoint.Signer, error) {
	var all []checkpoint.Signer
	for _, n := range numbers {
		signer, label := checkpoint.NewSigner, "audit/checkpoint/v%d"
		if slices.Contains(cfg.SM2Keys, n) {
			signer, label = checkpoint.NewSM2Signer, "audit/checkpoint/sm2/v%d"
		}
		s, err := signer(cfg.Origin, keys.Derive(fmt.Sprintf(label, n)))
		if err != nil {
			return checkpoint.Signer{}, err
		}
		all = append(all, s)
	}
	return checkpoint.Join(all...)
}

// allKeys returns the signer with every key up to the largest number in use: a key that signs no more has signed what is older.
func allKeys(cfg Config, keys *keyring.Ring) (checkpoint.Signer, error) {
	return newSigner(cfg, keys, upTo(slices.Max(cfg.CheckpointKeys))...)
}

// upTo returns the numbers from 1 to n.
func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

// keyDefaults fills what says which keys there are.
func (c *Config) keyDefaults() {
	if c.Suite == "" {
		c.Suite = content.Intl
	}
	if len(c.CheckpointKeys) == 0 {
		c.CheckpointKeys = []int{1}
	}
	if c.Suite == content.GM && len(c.SM2Keys) == 0 {
		c.SM2Keys = upTo(min(slices.Max(c.CheckpointKeys), maxCheckpointKey))
	}
}

func (c Config) validateKeys() (errs []error) {
	if c.Suite != content.Intl && c.Suite != content.GM {
		errs = append(errs, fmt.Errorf("suite: %q is none; want %s or %s", c.Suite, content.Intl, content.GM))
	}
	for i, n := range c.CheckpointKeys {
		if n < 1 || n > maxCheckpointKey || slices.Contains(c.CheckpointKeys[:i], n) {
			errs = append(errs, fmt.Errorf("checkpoint_keys: each must lie between 1 and %d and be there once", maxCheckpointKey))
			break
		}
	}
	for _, n := range c.SM2Keys {
		if n < 1 || n > slices.Max(c.CheckpointKeys) {
			errs = append(errs, errors.New("sm2_keys: each must lie between 1 and the largest number of checkpoint_keys"))
			break
		}
	}
	ofSuite := func(n int) bool { return slices.Contains(c.SM2Keys, n) == (c.Suite == content.GM) }
	if !slices.ContainsFunc(c.CheckpointKeys, ofSuite) {
		errs = append(errs, fmt.Errorf("checkpoint_keys: none of them is a key of the suite %s; sm2_keys says which numbers are SM2 keys", c.Suite))
	}
	return errs
}
