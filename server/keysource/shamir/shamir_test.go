package shamir

import (
	"bytes"
	"crypto/rand"
	"testing"
)

// TestFieldIsThatOfAES: the products that FIPS 197 prints in section 4.2, and every inverse.
func TestFieldIsThatOfAES(t *testing.T) {
	for _, v := range []struct{ a, b, product byte }{{0x57, 0x83, 0xc1}, {0x57, 0x13, 0xfe}, {0x57, 0x02, 0xae}, {0x57, 0x10, 0x07}, {0, 0x83, 0}, {1, 0x83, 0x83}} {
		if got := multiply(v.a, v.b); got != v.product {
			t.Errorf("%#x * %#x = %#x, want %#x", v.a, v.b, got, v.product)
		}
	}
	for a := 1; a < 256; a++ {
		if multiply(byte(a), invert(byte(a))) != 1 {
			t.Errorf("%#x has another inverse than %#x", a, invert(byte(a)))
		}
		for b := range 256 {
			if multiply(byte(a), byte(b)) != schoolbook(byte(a), byte(b)) {
				t.Fatalf("%#x * %#x", a, b)
			}
		}
	}
}

// schoolbook multiplies polynomials, and divides by that of the field.
func schoolbook(a, b byte) byte {
	wide := 0
	for i := range 8 {
		if b>>i&1 == 1 {
			wide ^= int(a) << i
		}
	}
	for i := 15; i >= 8; i-- {
		if wide>>i&1 == 1 {
			wide ^= 0x11b << (i - 8)
		}
	}
	return byte(wide)
}

// TestVector: 0x2a + 0x57x has 0x7d at 1 and 0x84 at 2, and 0x2a + 0x57x + 0x83x² has 0xfe, 0xbe and 0x6a at 1, 2 and 3.
func TestVector(t *testing.T) {
	for _, v := range []struct{ polynomial, values []byte }{{[]byte{0x2a, 0x57}, []byte{0x7d, 0x84}}, {[]byte{0x2a, 0x57, 0x83}, []byte{0xfe, 0xbe, 0x6a}}} {
		var shares []Share
		for i, want := range v.values {
			if got := evaluate(v.polynomial, byte(i+1)); got != want {
				t.Errorf("%x at %d is %#x, want %#x", v.polynomial, i+1, got, want)
			}
			shares = append(shares, Share{byte(i + 1), []byte{want}})
		}
		if got, err := Combine(shares); err != nil || got[0] != 0x2a {
			t.Errorf("%x, %v", got, err)
		}
	}
}

// TestEverySubset: with every k and n, each subset of at least k shares gives the secret, and no smaller one does.
func TestEverySubset(t *testing.T) {
	secret := make([]byte, 36)
	_, _ = rand.Read(secret)
	for n := 2; n <= MaxShares; n++ {
		for k := 2; k <= n; k++ {
			shares, err := Split(secret, n, k)
			if err != nil {
				t.Fatal(err)
			}
			for set := range 1 << n {
				var some []Share
				for i, s := range shares {
					if set>>i&1 == 1 {
						some = append(some, s)
					}
				}
				if len(some) < 2 {
					continue
				}
				got, err := Combine(some)
				if err != nil || bytes.Equal(got, secret) != (len(some) >= k) {
					t.Fatalf("%d of %d, set %b: equal %t, %v", k, n, set, bytes.Equal(got, secret), err)
				}
			}
		}
	}
}

// TestSharesSayNothing: one share of two of an all-zero secret is uniform; χ² over 255 degrees of freedom exceeds 400 once in 10⁸ runs.
func TestSharesSayNothing(t *testing.T) {
	shares, err := Split(make([]byte, 1<<16), 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	var count [256]float64
	for _, b := range shares[0].Data {
		count[b]++
	}
	sum := 0.0
	for _, c := range count {
		sum += (c - 256) * (c - 256) / 256
	}
	if sum > 400 {
		t.Errorf("χ² %.0f", sum)
	}
}

func TestRefused(t *testing.T) {
	for _, v := range []struct{ n, k int }{{3, 1}, {2, 3}, {9, 2}, {0, 0}, {1, 1}} {
		if _, err := Split([]byte{1}, v.n, v.k); err == nil {
			t.Errorf("%d of %d was split", v.k, v.n)
		}
	}
	if _, err := Split(nil, 3, 2); err == nil {
		t.Error("nothing was split")
	}
	a, b := Share{1, []byte{1}}, Share{2, []byte{2}}
	for name, shares := range map[string][]Share{"one": {a}, "twice": {a, a}, "zero": {a, {0, []byte{1}}}, "lengths": {a, {2, []byte{1, 2}}}, "empty": {{1, nil}, {2, nil}}} {
		if _, err := Combine(shares); err == nil {
			t.Errorf("%s were combined", name)
		}
	}
	if _, err := Combine([]Share{a, b}); err != nil {
		t.Error(err)
	}
}
