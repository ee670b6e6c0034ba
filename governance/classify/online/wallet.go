package online

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
	"golang.org/x/crypto/sha3"
)

const (
	base58Symbols = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	bech32Symbols = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	leastCrypto   = 26 // characters of an address
	maxCrypto     = 95
)

// cryptoHeads are what addresses begin with, as it is written or misread.
const cryptoHeads = "013bBDLlIMTt9AOo"

// cryptoAddress finds addresses of crypto-currencies by their checksums: base58check (Bitcoin, Litecoin, Dogecoin, Tron), bech32 (Bitcoin,
// Litecoin), and forty hexadecimal digits behind 0x (Ethereum), where mixed case is a checksum and one case leaves no doubt by its form.
// Behind a word such as 钱包 the checksum may be wrong, as where paper was misread; there may be one blank inside.
func cryptoAddress(w *Accounts, i int) (finding.Candidate, text.Verdict) {
	if text.IsAlnum(w.At(i-1)) || !strings.ContainsRune(cryptoHeads, w.At(i)) {
		return finding.Candidate{}, text.No
	}
	blank, v := w.shortHead(i)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if first, v := w.While(i, 12, text.IsAlnum); blank == 0 && (v == text.Open || first-i < 12 && (!text.IsBlank(w.At(first)) || !w.Any(i+1, first, func(r rune) bool { return r < 'a' }))) {
		return finding.Candidate{}, text.When(v == text.Open, text.Open, text.No) // a word
	}
	s, v := w.spelledOver(i, blank, maxCrypto, func(r rune) byte {
		if text.IsAlnum(r) {
			return byte(r)
		}
		return 0
	})
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if len(s.text) < leastCrypto || len(s.text) == maxCrypto {
		return finding.Candidate{}, text.No
	}
	cued := w.PrecededBy(i, "地址", "钱包", "address", "wallet", "usdt", "转账", "提现", "打到", "打币", "转入", "转至", "充值", "流向", "虚拟币", "比特币", "打入", "转出", "收币", "支付", "勒索", "btc", "eth", "trc20", "erc20", "以太坊", "波场", "转账给")
	sizes := []int{len(s.text), s.gap}
	if cryptoEvidence(string(s.text[:s.gap]), cued) == finding.CheckRight {
		sizes = sizes[1:]
	}
	for _, size := range sizes {
		why := cryptoEvidence(string(s.text[:size]), cued)
		if why == 0 || size > s.gap && why&finding.CheckRight == 0 && !cued {
			continue
		}
		m := finding.Candidate{Kind: finding.Crypto, Start: i, End: s.at[size-1] + 1, Form: 0.3, Evidence: why}
		if cued {
			m.Evidence |= finding.LabelBefore
		}
		if m.Score() >= finding.Threshold {
			return m, text.Yes
		}
	}
	return finding.Candidate{}, text.No
}

// shortHead returns the cell of the blank behind one or two characters that begin an address, where a long row follows; 0: there is none.
func (w *Accounts) shortHead(i int) (int, text.Verdict) {
	k := i + 1
	if text.IsAlnum(w.At(k)) {
		k++
	}
	if !text.IsBlank(w.At(k)) {
		return 0, text.When(w.At(k) == text.Unknown, text.Open, text.Yes)
	}
	end, v := w.While(k+1, 30, text.IsAlnum)
	if v == text.Open {
		return 0, text.Open
	}
	if end-k-1 < 25 {
		return 0, text.Yes
	}
	return k, text.Yes
}

// cryptoEvidence says why s may be an address, 0 if it cannot be one.
func cryptoEvidence(s string, cued bool) finding.Evidence {
	if len(s) < 26 {
		return 0
	}
	if low := strings.ToLower(s); strings.HasPrefix(low, "ox") || strings.HasPrefix(low, "bci") || strings.HasPrefix(low, "bcl") { // paper confuses them
		s = strings.NewReplacer("o", "0", "O", "0", "i", "1", "I", "1", "l", "1").Replace(s[:3]) + s[3:]
	}
	low := strings.ToLower(s)
	switch {
	case len(s) == 42 && low[:2] == "0x" && isHexText(strings.NewReplacer("O", "0", "o", "0", "l", "1", "I", "1").Replace(s[2:])):
		switch {
		case !isHexText(s[2:]):
			return finding.CheckWrong
		case low[2:] == s[2:] || strings.ToUpper(s[2:]) == s[2:]:
			return finding.Marked
		case eip55(s[2:]):
			return finding.CheckRight
		}
		return finding.CheckWrong
	case len(s) >= 26 && len(s) <= 35 && base58check(unworn.Replace(s)), bech32(s), bech32(s[:4] + unwornBech32.Replace(s[4:])):
		return finding.CheckRight
	case !cued || !strings.ContainsFunc(s, text.IsDigit) || !strings.ContainsFunc(s, text.IsLetter):
		return 0
	case len(s) >= 26 && len(s) <= 35, len(s) >= 40 && len(s) <= 64 && (low[:3] == "bc1" || low[:3] == "bcl" || low[:3] == "ltc"):
		return finding.CheckWrong
	}
	return 0
}

// What paper makes of the symbols of both alphabets, and what they cannot be.
var (
	unworn       = strings.NewReplacer("l", "1", "I", "1", "0", "o", "O", "o")
	unwornBech32 = strings.NewReplacer("O", "0", "o", "0", "1", "l", "I", "l")
)

func isHexText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !text.IsHex(r) })
}

// eip55 reports whether the cases of the letters are those of the checksum.
func eip55(s string) bool {
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(strings.ToLower(s)))
	sum := hex.EncodeToString(h.Sum(nil))
	for i, c := range s {
		if text.IsLetter(c) && (c <= 'F') != (sum[i] >= '8') {
			return false
		}
	}
	return true
}

func base58check(s string) bool {
	var b [25]byte // version, twenty bytes, checksum
	for _, c := range s {
		value := strings.IndexRune(base58Symbols, c)
		if value < 0 {
			return false
		}
		for k := len(b) - 1; k >= 0; k-- {
			value += int(b[k]) * 58
			b[k] = byte(value)
			value >>= 8
		}
		if value != 0 {
			return false
		}
	}
	sum := sha256.Sum256(b[:21])
	sum = sha256.Sum256(sum[:])
	return bytes.Equal(sum[:4], b[21:])
}

// bech32 checks both forms of the checksum, for Bitcoin and Litecoin.
func bech32(s string) bool {
	low := strings.ToLower(s)
	if low != s && strings.ToUpper(s) != s {
		return false
	}
	human, data, ok := strings.Cut(low, "1")
	if !ok || human != "bc" && human != "ltc" && human != "tb" || len(data) < 38 {
		return false
	}
	sum := uint32(1)
	step := func(value uint32) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ value
		for n, g := range []uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>n&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, c := range human {
		step(uint32(c) >> 5)
	}
	step(0)
	for _, c := range human {
		step(uint32(c) & 31)
	}
	for _, c := range data {
		value := strings.IndexRune(bech32Symbols, c)
		if value < 0 {
			return false
		}
		step(uint32(value))
	}
	return sum == 1 || sum == 0x2bc830a3
}
