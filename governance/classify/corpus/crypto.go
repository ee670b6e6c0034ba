package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"

	"golang.org/x/crypto/sha3"
)

func (r *random) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.next())
	}
	return out
}

func (s *scene) cryptoAddress() string {
	switch s.n(8) {
	case 0:
		return base58Check(0x00, s.bytes(20))
	case 1:
		return base58Check(0x05, s.bytes(20))
	case 2:
		return bech32(0, s.bytes(20))
	case 3:
		return bech32(1, s.bytes(32))
	case 4, 5:
		return base58Check(0x41, s.bytes(20)) // Tron
	case 6:
		return "0x" + hex.EncodeToString(s.bytes(20))
	}
	return checksummed(s.bytes(20))
}

// base58Check writes a version and a payload as Bitcoin does.
func base58Check(version byte, payload []byte) string {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	raw := append([]byte{version}, payload...)
	first := sha256.Sum256(raw)
	second := sha256.Sum256(first[:])
	raw = append(raw, second[:4]...)
	n, digit, base := new(big.Int).SetBytes(raw), new(big.Int), big.NewInt(58)
	var out []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, digit)
		out = append([]byte{alphabet[digit.Int64()]}, out...)
	}
	for i := 0; i < len(raw) && raw[i] == 0; i++ {
		out = append([]byte{'1'}, out...)
	}
	return string(out)
}

// bech32 writes a Bitcoin witness program: BIP 173 for version 0, BIP 350 for the later ones.
func bech32(version byte, program []byte) string {
	const alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	data := []byte{version}
	acc, bits := 0, 0
	for _, b := range program {
		acc, bits = acc<<8|int(b), bits+8
		for bits >= 5 {
			bits -= 5
			data = append(data, byte(acc>>bits&31))
		}
	}
	if bits > 0 {
		data = append(data, byte(acc<<(5-bits)&31))
	}
	check := 1
	feed := func(v byte) {
		top := check >> 25
		check = (check&0x1ffffff)<<5 ^ int(v)
		for i, g := range []int{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				check ^= g
			}
		}
	}
	for _, v := range []byte{3, 3, 0, 2, 3} { // "bc", expanded
		feed(v)
	}
	for _, v := range data {
		feed(v)
	}
	for range 6 {
		feed(0)
	}
	check ^= map[bool]int{true: 1, false: 0x2bc830a3}[version == 0]
	for i := 5; i >= 0; i-- {
		data = append(data, byte(check>>(5*i)&31))
	}
	out := strings.Builder{}
	out.WriteString("bc1")
	for _, v := range data {
		out.WriteByte(alphabet[v])
	}
	return out.String()
}

// checksummed writes an Ethereum address as EIP-55 says.
func checksummed(address []byte) string {
	digits := []byte(hex.EncodeToString(address))
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write(digits) // hashes never fail
	hash := hex.EncodeToString(h.Sum(nil))
	for i, c := range digits {
		if c >= 'a' && hash[i] >= '8' {
			digits[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(digits)
}
