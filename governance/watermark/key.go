package watermark

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// Scheme is how tokens are marked.
type Scheme string

// The schemes.
const (
	Gumbel Scheme = "gumbel"
	KGW    Scheme = "kgw"
)

// Context is how many tokens a context of Gumbel has, and the most that one of KGW can have.
const Context = 4

const (
	defaultSubKeys = 256
	maxSubKeys     = 1 << 16
)

// Params say how a key marks. The zero value is Gumbel with 256 sub-keys.
type Params struct {
	Scheme  Scheme
	SubKeys int // a power of two, at most 65,536; 0 means 256

	// Of KGW alone.
	Context int     // tokens, 1 to 4; 0 means 4
	Gamma   float64 // share of the tokens that weigh more, from 0.01 to 0.99; 0 means 0.25
	Delta   float64 // natural logarithm of how much more, up to 20; 0 means 2
}

// WithDefaults fills the zero values.
func (p Params) WithDefaults() Params {
	if p.Scheme == "" {
		p.Scheme = Gumbel
	}
	if p.SubKeys == 0 {
		p.SubKeys = defaultSubKeys
	}
	if p.Context == 0 {
		p.Context = Context
	}
	if p.Gamma == 0 {
		p.Gamma = 0 // −0 is the same key
	}
	if p.Scheme == KGW {
		if p.Gamma == 0 {
			p.Gamma = 0.25
		}
		if p.Delta == 0 {
			p.Delta = 2
		}
	}
	return p
}

// Validate reports what is wrong with parameters.
func (p Params) Validate() error {
	p = p.WithDefaults()
	kgw := p.Scheme == KGW
	switch {
	case p.Scheme != Gumbel && !kgw:
		return fmt.Errorf("scheme: %q is neither gumbel nor kgw", p.Scheme)
	case p.SubKeys < 1 || p.SubKeys > maxSubKeys || p.SubKeys&(p.SubKeys-1) != 0:
		return fmt.Errorf("sub-keys: %d is no power of two from 1 to %d", p.SubKeys, maxSubKeys)
	case !kgw && (p.Context != Context || p.Gamma != 0 || p.Delta != 0):
		return errors.New("context, gamma and delta are parameters of kgw alone")
	case p.Context < 1 || p.Context > Context:
		return fmt.Errorf("context: %d is not from 1 to %d", p.Context, Context)
	case kgw && !(p.Gamma >= 0.01 && p.Gamma <= 0.99):
		return fmt.Errorf("gamma: %v is not from 0.01 to 0.99", p.Gamma)
	case kgw && !(p.Delta > 0 && p.Delta <= 20):
		return fmt.Errorf("delta: %v is not above 0 and at most 20", p.Delta)
	}
	return nil
}

// KeyConfig is what a key is made of.
type KeyConfig struct {
	Secret []byte // of the tenant, at least 32 random bytes
	Tenant string
	Epoch  uint32
	Params Params
}

// Format hides the secret from whoever prints a configuration, by any verb.
func (c KeyConfig) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "key of %s, epoch %d", c.Tenant, c.Epoch)
}

// Key marks texts and finds its marks. It is immutable, and safe for concurrent use.
type Key struct {
	id       string
	tenant   string
	epoch    uint32
	params   Params
	contexts cipher.Block // makes numbers of contexts
	names    cipher.Block // makes sub-keys of their numbers, and the number of one of a seed
}

// NewKey derives a key. The same configuration gives the same key.
func NewKey(cfg KeyConfig) (*Key, error) {
	if err := cfg.Params.Validate(); err != nil {
		return nil, fmt.Errorf("watermark: %w", err)
	}
	if len(cfg.Secret) < 32 {
		return nil, fmt.Errorf("watermark: a secret of %d bytes; it takes 32", len(cfg.Secret))
	}
	k := &Key{tenant: cfg.Tenant, epoch: cfg.Epoch, params: cfg.Params.WithDefaults()}
	bits, err := hkdf.Key(sha256.New, cfg.Secret, nil, k.info(), 2*32+8)
	if err != nil {
		return nil, fmt.Errorf("watermark: derive a key: %w", err)
	}
	k.id = hex.EncodeToString(bits[64:])
	if k.contexts, err = aes.NewCipher(bits[:32]); err == nil {
		k.names, err = aes.NewCipher(bits[32:64])
	}
	if err != nil {
		return nil, fmt.Errorf("watermark: derive a key: %w", err)
	}
	return k, nil
}

// info tells this key from all others of the secret.
func (k *Key) info() string {
	p := k.params
	b := []byte("sluice watermark 1")
	for _, s := range []string{string(p.Scheme), k.tenant} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	for _, n := range []uint64{uint64(k.epoch), uint64(p.SubKeys), uint64(p.Context), math.Float64bits(p.Gamma), math.Float64bits(p.Delta)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return string(b)
}

// ID names the key without telling anything of it: 16 hexadecimal digits.
func (k *Key) ID() string { return k.id }

// Tenant returns whose key it is.
func (k *Key) Tenant() string { return k.tenant }

// Epoch returns the number of the key's epoch.
func (k *Key) Epoch() uint32 { return k.epoch }

// Params returns the parameters, defaults filled in.
func (k *Key) Params() Params { return k.params }

// Greedy reports whether the scheme can mark at temperature 0.
func (k *Key) Greedy() bool { return k.params.Scheme == KGW }

// subKey is one of a key's. It owns scratch memory; one goroutine uses it.
type subKey struct {
	key     *Key
	mask    block
	in, out block
}

type block [aes.BlockSize]byte

// sub returns the sub-key with a number below Params.SubKeys.
func (k *Key) sub(number int) *subKey {
	s := &subKey{key: k}
	binary.LittleEndian.PutUint64(s.in[:], uint64(number))
	k.names.Encrypt(s.mask[:], s.in[:])
	return s
}

// subOf returns the number of the sub-key that marks a choice.
func (k *Key) subOf(seed uint64, choice int) int {
	var b block
	binary.LittleEndian.PutUint64(b[:], seed)
	b[15] = 1 // no number of a sub-key looks like that
	k.names.Encrypt(b[:], b[:])
	return int((binary.LittleEndian.Uint64(b[:]) + uint64(choice)) % uint64(k.params.SubKeys))
}

// context is the last tokens before one. Where it is to have fewer than Context, the first ones are −1, which is no token.
type context [Context]int32

// at returns the context of the token that follows the first i tokens. There are at least as many as it has.
func at(tokens []int32, i, length int) context {
	c := context{-1, -1, -1, -1}
	copy(c[Context-length:], tokens[i-length:i])
	return c
}

// numbers are those of all tokens in one context.
type numbers struct{ a, b uint64 }

func (s *subKey) numbers(c context) numbers {
	for i, t := range c {
		binary.LittleEndian.PutUint32(s.in[4*i:], uint32(t))
	}
	for i := range s.in {
		s.in[i] ^= s.mask[i]
	}
	s.key.contexts.Encrypt(s.out[:], s.in[:])
	return numbers{binary.LittleEndian.Uint64(s.out[:8]), binary.LittleEndian.Uint64(s.out[8:])}
}

// bits returns the number of a token. Its first byte is one of those that eight neighbours share: it rules most tokens out, so that nobody
// asks for the rest.
func (n numbers) bits(token int32) uint64 { return n.rest(token, n.firsts(token>>3)>>(8*(token&7))) }

// firsts returns the first bytes of the eight tokens of a group.
func (n numbers) firsts(group int32) uint64 { return mix(n.b, n.a, uint64(uint32(group))) }

// rest returns the number of a token, the first byte of which is the last one of first.
func (n numbers) rest(token int32, first uint64) uint64 {
	return first<<56 | mix(n.a, n.b, uint64(uint32(token)))>>8
}

// mix is the finaliser of SplitMix64, with one half of a secret before it and the other in its middle.
func mix(a, b, x uint64) uint64 {
	x = a + x*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27 ^ b) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit makes a number between 0 and 1 of bits, never 0 and never 1.
func unit(bits uint64) float64 { return (float64(int64(bits>>12)) + 0.5) * (1.0 / (1 << 52)) }

// green is the bound of bits below which a token is one of the share gamma.
func green(gamma float64) uint64 { return uint64(gamma * (1 << 63) * 2) }
