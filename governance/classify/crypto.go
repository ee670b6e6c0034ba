package classify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/sha3"
)

const (
	base58Symbols = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	bech32Symbols = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	maxCrypto     = 95 // characters of an address
)

// cryptoAddress finds addresses of crypto-currencies by their checksums: base58check (Bitcoin, Litecoin, Dogecoin, Tron, Ripple has its own
// alphabet and is not looked for), bech32 (Bitcoin, Litecoin), and forty hexadecimal digits behind 0x (Ethereum), where mixed case is a
// checksum and one case leaves no doubt by its form.
func cryptoAddress(w *window, i int) (match, verdict) {
	r := w.at(i)
	if isAlnum(w.at(i-1)) || !strings.ContainsRune("013bBDLMTtl9A", r) {
		return match{}, no
	}
	end, v := w.while(i, maxCrypto, isAlnum)
	if v == open {
		return match{}, open
	}
	size := end - i
	if size < 26 || size == maxCrypto {
		return match{}, no
	}
	s := w.ascii(i, end)
	m := match{kind: kCrypto, start: i, end: end, form: 0.3}
	switch {
	case size == 42 && (s[:2] == "0x" || s[:2] == "0X"):
		if !isHexText(s[2:]) {
			return match{}, no
		}
		if strings.ToLower(s[2:]) == s[2:] || strings.ToUpper(s[2:]) == s[2:] {
			m.why = marked
		} else if eip55(s[2:]) {
			m.why = checkRight
		} else {
			m.why = checkWrong
		}
		if w.cued(i, "地址", "钱包", "address", "wallet", "usdt", "eth", "转账", "提现", "打到", "转入", "转至") {
			m.why |= cueBefore
		}
	case size <= 35 && base58check(s):
		m.why = checkRight
	case bech32(s):
		m.why = checkRight
	default:
		return match{}, no
	}
	return m, yes
}

func isHexText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !isHex(r) })
}

// eip55 reports whether the cases of the letters are those of the checksum.
func eip55(s string) bool {
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(strings.ToLower(s)))
	sum := hex.EncodeToString(h.Sum(nil))
	for i, c := range s {
		if isLetter(c) && (c <= 'F') != (sum[i] >= '8') {
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
