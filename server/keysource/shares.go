package keysource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/server/keysource/shamir"
)

// Split says in how many shares a key is split, and how many give it back. The zero value splits nothing.
type Split struct{ Shares, Threshold int }

// What shares are of.
const (
	ofSealingKey = "S"
	ofMasterKey  = "R" // a recovery copy
)

// share is the text of a share, which people keep on paper or in a file:
//
//	SLUICE1-S-2OF3-1-8F3A21C0-DATA-CHECKSUM
//
// The number of its format, what it is of, how many are needed of how many, its index, the id of the set, the data in base 32, and the start of the
// SHA-256 of all before.
type share struct {
	of             string
	shares, needed int
	index          int
	set            string
	data           []byte
}

const proofSize = 4 // of a secret that was split, behind it: shares that do not belong together give none

var (
	shareText = regexp.MustCompile(`^(SLUICE1-([SR])-([2-8])OF([2-8])-([1-8])-([0-9A-F]{8})-([A-Z2-7]{58}))-([0-9A-F]{8})$`)
	base      = base32.StdEncoding.WithPadding(base32.NoPadding) //nolint:gochecknoglobals // a constant alphabet
)

func (s share) String() string {
	text := fmt.Sprintf("SLUICE1-%s-%dOF%d-%d-%s-%s", s.of, s.needed, s.shares, s.index, s.set, base.EncodeToString(s.data))
	return text + "-" + checksum(text)
}

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToUpper(hex.EncodeToString(sum[:4]))
}

// parseShare reads a share as people type it: in either case, with spaces and line ends anywhere. Its errors do not repeat it.
func parseShare(text string) (share, error) {
	text = strings.ToUpper(strings.Join(strings.Fields(text), ""))
	m := shareText.FindStringSubmatch(text)
	if m == nil {
		return share{}, failed("keysource.no_share")
	}
	if checksum(m[1]) != m[8] {
		return share{}, failed("keysource.share_mistyped")
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	out := share{of: m[2], needed: number(m[3]), shares: number(m[4]), index: number(m[5]), set: m[6]}
	var err error
	if out.data, err = base.DecodeString(m[7]); err != nil || out.needed > out.shares || out.index > out.shares || out.String() != text {
		return share{}, failed("keysource.no_share")
	}
	return out, nil
}

// split returns the texts of the shares of a key.
func split(key []byte, of string, as Split) ([]string, error) {
	proof := sha256.Sum256(key)
	parts, err := shamir.Split(append(bytes.Clone(key), proof[:proofSize]...), as.Shares, as.Threshold)
	if err != nil {
		return nil, failed("keysource.bad_split", shamir.MaxShares)
	}
	set := strings.ToUpper(hex.EncodeToString(seal.Random(4)))
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = share{of, as.Shares, as.Threshold, int(p.Index), set, p.Data}.String()
	}
	return out, nil
}

// joined returns the key that shares are of. A set that does not fit is told by what differs.
func joined(shares []share, of string) ([]byte, error) {
	var parts []shamir.Share
	for _, s := range shares {
		if s.of != of {
			return nil, failed("keysource.share_of_other", s.index)
		}
		if s.set != shares[0].set || s.needed != shares[0].needed || s.shares != shares[0].shares {
			return nil, failed("keysource.share_of_set", s.index, s.set, shares[0].set)
		}
		parts = append(parts, shamir.Share{Index: byte(s.index), Data: s.data})
	}
	if len(shares) == 0 || len(shares) < shares[0].needed {
		return nil, failed("keysource.few_shares", len(shares))
	}
	b, err := shamir.Combine(parts)
	if err != nil {
		return nil, failed("keysource.share_twice")
	}
	key := b[:len(b)-proofSize]
	if proof := sha256.Sum256(key); !bytes.Equal(proof[:proofSize], b[len(key):]) {
		return nil, failed("keysource.shares_unfit")
	}
	return key, nil
}

// gather puts the sealing key of s together: shares from files first, and what is missing from somebody at the terminal.
func (c *Custodian) gather(ctx context.Context, s Sealed) ([]byte, error) {
	var have []share
	for _, path := range c.cfg.ShareFiles {
		if len(have) == s.Threshold {
			break
		}
		text, err := readSecretFile(path)
		if err != nil {
			return nil, err
		}
		sh, err := parseShare(text)
		if err != nil {
			return nil, failed("keysource.in_file", path, err)
		}
		have = append(have, sh)
	}
	for len(have) < s.Threshold {
		if c.cfg.Ask == nil {
			return nil, failed("keysource.shares_missing", s.Threshold, s.Shares, len(have))
		}
		text, err := c.cfg.Ask(ctx, len(have)+1, s.Threshold)
		if err != nil {
			return nil, err
		}
		sh, err := parseShare(text)
		if err != nil {
			return nil, err
		}
		have = append(have, sh)
	}
	return joined(have, ofSealingKey)
}
