package corpus

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// random is a small generator of its own (SplitMix64), so that no release of Go changes the corpus.
type random struct{ state uint64 }

func newRandom(key ...string) *random {
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return &random{binary.LittleEndian.Uint64(sum[:])}
}

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// n returns a number in [0, n).
func (r *random) n(n int) int { return int(r.next() % uint64(n)) }

// in returns a number in [low, high].
func (r *random) in(low, high int) int { return low + r.n(high-low+1) }

func (r *random) chance(percent int) bool { return r.n(100) < percent }

// of returns one of the words.
func (r *random) of(words ...string) string { return words[r.n(len(words))] }

// word returns one of the words of a list, which are parted by blanks.
func (r *random) word(list string) string { return r.of(strings.Fields(list)...) }

// chars returns n characters of an alphabet.
func (r *random) chars(alphabet string, n int) string {
	a, b := []rune(alphabet), strings.Builder{}
	for range n {
		b.WriteRune(a[r.n(len(a))])
	}
	return b.String()
}

const (
	decimal  = "0123456789"
	lower    = "abcdefghijklmnopqrstuvwxyz"
	upper    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	hexLower = "0123456789abcdef"
	alnum    = lower + upper + decimal
)

func (r *random) digits(n int) string { return r.chars(decimal, n) }

// number returns n digits of which the first is not 0.
func (r *random) number(n int) string { return r.chars("123456789", 1) + r.digits(n-1) }

// mixed returns n letters and digits, of which at least one is a digit and one a letter of each case.
func (r *random) mixed(n int) string {
	s := []byte(r.chars(alnum, n))
	s[n/4], s[n/2], s[n-1] = lower[r.n(26)], upper[r.n(26)], decimal[r.n(10)]
	return string(s)
}
