package pool

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	prefixBlock  = 256 // bytes of a prompt that one hash adds
	prefixBlocks = 64  // hashes of one prompt: what is behind them says little of where it should go
	prefixSets   = 1 << 11
	prefixWays   = 4
)

// PrefixHash makes the hashes of a prompt, one for each beginning of it that ends with a block of 256 bytes, of the first 64. Each covers all that is before
// it, and the domain: prompts of two domains never have a hash in common, and nobody can make a prompt with a given hash, since the seed is drawn at the start.
// It is a value for one goroutine.
type PrefixHash struct {
	hash maphash.Hash
	open int // bytes since the last block
	all  []uint64
}

// NewPrefixHash returns the hash of an empty prompt, by the seed of an installation.
func NewPrefixHash(seed maphash.Seed, domain string) *PrefixHash {
	p := &PrefixHash{}
	p.hash.SetSeed(seed)
	_, _ = p.hash.WriteString(domain)
	_ = p.hash.WriteByte(0)
	return p
}

// Write adds a text, which is told apart from those before it.
func (p *PrefixHash) Write(text string) {
	_ = p.hash.WriteByte(0)
	for text != "" && len(p.all) < prefixBlocks {
		n := min(len(text), prefixBlock-p.open)
		_, _ = p.hash.WriteString(text[:n])
		text = text[n:]
		if p.open += n; p.open == prefixBlock {
			p.all, p.open = append(p.all, max(1, p.hash.Sum64())), 0
		}
	}
}

// Sum returns the hashes, the shortest beginning first; none of a prompt that is shorter than a block.
func (p *PrefixHash) Sum() []uint64 { return p.all }

// prefixes remembers approximately which beginnings of prompts an instance had last: 8192 of them, in 64 KiB. Whatever it forgets or takes for known by a race
// costs speed only.
type prefixes struct {
	slots [prefixSets * prefixWays]atomic.Uint64 // those of a set lie together, the one that was used last first; 0 is free
}

func (x *prefixes) set(hash uint64) []atomic.Uint64 {
	at := int(hash>>32) % prefixSets * prefixWays
	return x.slots[at : at+prefixWays]
}

func (x *prefixes) has(hash uint64) bool {
	set := x.set(hash)
	for i := range set {
		if set[i].Load() == hash {
			return true
		}
	}
	return false
}

// add notes that the instance is given a prompt.
func (x *prefixes) add(hashes []uint64) {
	for _, h := range hashes {
		set, moving := x.set(h), h
		for i := range set {
			was := set[i].Load()
			set[i].Store(moving)
			if was == h || was == 0 {
				break
			}
			moving = was
		}
	}
}

// match returns of how many blocks the longest known beginning is.
func (x *prefixes) match(hashes []uint64) int {
	if x == nil {
		return 0
	}
	low, high := 0, len(hashes) // the beginning of low blocks is known; that of more than high is not
	for low < high {
		if mid := (low + high + 1) / 2; x.has(hashes[mid-1]) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}
