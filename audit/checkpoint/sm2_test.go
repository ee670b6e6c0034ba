package checkpoint

import (
	"bytes"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/sm3"
)

// TestNationalVectors holds the library to the examples printed in the standards, so that "SM2" and "SM3" mean what others mean by them.
func TestNationalVectors(t *testing.T) {
	for text, want := range map[string]string{ // GB/T 32905 appendix A
		"abc":                      "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
		strings.Repeat("abcd", 16): "debe9ff92275b8a138604889c18e5a4d6fdb70e5387e5765293dcba39c0c5732",
	} {
		if sum := sm3.Sum([]byte(text)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("SM3(%q) is %x", text, sum)
		}
	}
	// GB/T 32918.5 appendix A: "message digest", signed by the identity that all use.
	const (
		number = "3945208f7b2144b13f36e38ac6d39f95889393692860b51a42fb81ef4df7c5b8"
		point  = "0409f9df311e5421a150dd7d161e4bc5c672179fad1833fc076bb08ff356f35020ccea490ce26775a52dc6ea718cc1aa600aed05fbf35e084a6632f6072da9ad13"
		r      = "f5a03b0648d2c4630eeac513e1bb81a15944da3827d5b74143ac7eaceee720b3"
		s      = "b1b6aa29df212fd8763182bc0d421ca1bb9038fd1f7f42d4840b69c485bbc1aa"
	)
	private, err := sm2.NewPrivateKey(unhex(t, number))
	if err != nil {
		t.Fatal(err)
	}
	if public, err := sm2.PublicKeyToECDH(&private.PublicKey); err != nil || hex.EncodeToString(public.Bytes()) != point {
		t.Errorf("the public key is %x, %v", public.Bytes(), err)
	}
	k := must(publicKey("x", kindSM2, unhex(t, point)))(t)
	sig, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(unhex(t, r)), new(big.Int).SetBytes(unhex(t, s))})
	if err != nil {
		t.Fatal(err)
	}
	if !k.verify([]byte("message digest"), sig) {
		t.Error("the signature of the standard does not hold")
	}
	if k.verify([]byte("message digesT"), sig) {
		t.Error("a signature holds for another message")
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	return must(hex.DecodeString(s))(t)
}

// TestKeysAreFrozen: a key that came out otherwise would make every checkpoint of an installation unreadable.
func TestKeysAreFrozen(t *testing.T) {
	for want, got := range map[string]string{
		"log.example/audit+5f02ff6d+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c":                                                                       must(NewSigner("log.example/audit", seed(1)))(t).Key(),
		"log.example/audit+d221ae96+/3NtMi1zbTMvdjEKBGRnlQae1mlb+4eGfRRK7j6iFBBoZ/tJ+gFiNjvLdvfhZgHiCgEPYJspgvu1uhbnlZZzA4YUqPJAx0VFvQ7fCsA=":           must(NewSM2Signer("log.example/audit", seed(1)))(t).Key(),
		"one.example+92ec38cf+/3NtMi1zbTMvY29zaWduYXR1cmUvdjEKBM9S5HpesyNC95H693wC6/bxuCrP0cZUnJU/f7LGK6lxQL9ODuqzoUUT3vFUpSp1ZiEsyT7IzACv05828ccle44=": must(NewSM2Witness("one.example", seed(7), at(1)))(t).Key(),
	} {
		if got != want {
			t.Errorf("the key is %s, was %s", got, want)
		}
	}
}

// suites are a log and a witness of each suite, and a log on its way from one to the other.
func suites(t testing.TB) map[string]struct {
	log Signer
	wit Witness
} {
	t.Helper()
	intl, gm := must(NewSigner("log.example/audit", seed(1)))(t), must(NewSM2Signer("log.example/audit", seed(1)))(t)
	return map[string]struct {
		log Signer
		wit Witness
	}{
		"intl": {intl, must(NewWitness("one.example", seed(7), at(1_700_000_000)))(t)},
		"gm":   {gm, must(NewSM2Witness("one.example", seed(7), at(1_700_000_000)))(t)},
		"both": {must(Join(intl, gm))(t), must(NewSM2Witness("one.example", seed(7), at(1_700_000_000)))(t)},
	}
}

// TestChangeOfSuite walks a log from Ed25519 to SM2: who knows one of the keys reads all that it signed, and nothing else.
func TestChangeOfSuite(t *testing.T) {
	all := suites(t)
	for by, signer := range all {
		text := must(signer.log.Sign(some))(t)
		if again := must(signer.log.Sign(some))(t); again != text {
			t.Errorf("%s: signing is not deterministic", by)
		}
		for known, reader := range all {
			got, err := must(NewVerifier(reader.log.Key()))(t).Open(text)
			if ok := by == known || by == "both" || known == "both"; ok != (err == nil) || ok && got != some {
				t.Errorf("signed by %s, read with %s: %+v, %v", by, known, got, err)
			}
		}
		w := must(NewWitnesses(signer.wit.Key()))(t)
		signed := Add(text, must(signer.wit.Cosign(text))(t))
		_, found, err := signer.log.Verifier().OpenCosigned(signed, w)
		if err != nil || len(found) != 1 || found[0] != (Cosignature{"one.example", time.Unix(1_700_000_000, 0).UTC()}) {
			t.Errorf("%s: %+v, %v", by, found, err)
		}
	}
	if _, err := Join(all["intl"].log, must(NewSM2Signer("other.example", seed(1)))(t)); err == nil {
		t.Error("the keys of two logs were joined")
	}
	if _, err := Join(); err == nil {
		t.Error("no keys were joined")
	}
}

// TestOneKeyBrokenIsEnough: where both keys are known, both signatures have to hold; a forger of one of them gets nowhere.
func TestOneKeyBrokenIsEnough(t *testing.T) {
	all := suites(t)
	text := must(all["both"].log.Sign(some))(t)
	lines := strings.SplitAfter(text, "\n")
	other := strings.SplitAfter(must(all["both"].log.Sign(Tree{Size: 8, Root: some.Root}))(t), "\n")
	for _, i := range []int{len(lines) - 3, len(lines) - 2} {
		mixed := append(append([]string{}, lines[:i]...), other[i])
		mixed = append(mixed, lines[i+1:]...)
		if _, err := all["both"].log.Verifier().Open(strings.Join(mixed, "")); err == nil {
			t.Errorf("accepted with a signature of another checkpoint in line %d", i)
		}
	}
}

// TestEveryFlippedBit: no change of a checkpoint or of a signature passes, in any suite.
func TestEveryFlippedBit(t *testing.T) {
	for name, s := range suites(t) {
		text := must(s.log.Sign(some))(t)
		signed := []byte(Add(text, must(s.wit.Cosign(text))(t)))
		known, v := must(NewWitnesses(s.wit.Key()))(t), s.log.Verifier()
		for i := range signed {
			for bit := range 8 {
				b := bytes.Clone(signed)
				b[i] ^= 1 << bit
				tree, found, err := v.OpenCosigned(string(b), known)
				if err == nil && (tree != some || len(found) == 1 && name != "both") {
					t.Fatalf("%s: bit %d of byte %d was flipped: %+v %+v", name, bit, i, tree, found)
				}
			}
		}
	}
}

// TestKindsAreNotConfused: a key signs what it is for, and a signature is never taken for one of another kind.
func TestKindsAreNotConfused(t *testing.T) {
	for name, s := range suites(t) {
		if _, err := NewVerifier(s.wit.Key()); err == nil {
			t.Errorf("%s: the key of a witness was taken for that of a log", name)
		}
		if _, err := NewWitnesses(s.log.Key()); err == nil {
			t.Errorf("%s: the key of a log was taken for that of a witness", name)
		}
	}
	// One name and one seed for all kinds: four keys that do not read each other's signatures.
	a, b := must(NewSigner("x", seed(1)))(t), must(NewSM2Signer("x", seed(1)))(t)
	c, d := must(NewWitness("x", seed(1), at(1)))(t), must(NewSM2Witness("x", seed(1), at(1)))(t)
	hashes := map[uint32]bool{a.keys[0].hash(): true, b.keys[0].hash(): true, c.key.hash(): true, d.key.hash(): true}
	if len(hashes) != 4 {
		t.Error("two kinds share a key hash")
	}
	msg := []byte("x\n1\n")
	sig := must(b.keys[0].sign(msg))(t)
	if bytes.Equal(sig, must(d.key.sign(msg))(t)) != bytes.Equal(b.keys[0].public, d.key.public) {
		t.Error("equal seeds gave different SM2 keys")
	}
	if a.keys[0].verify(msg, sig) {
		t.Error("an SM2 signature was taken for an Ed25519 one")
	}
	for name, public := range map[string][]byte{"infinity": {0}, "short": make([]byte, 64), "off the curve": append([]byte{4}, make([]byte, 64)...), "empty": nil} {
		if _, err := publicKey("x", kindSM2, public); err == nil {
			t.Errorf("%s: accepted as an SM2 key", name)
		}
		if _, err := publicKey("x", kindEd25519, public); err == nil {
			t.Errorf("%s: accepted as an Ed25519 key", name)
		}
	}
}

// TestHashSuite: the tree's hashes are named in what is signed, and a tree of others is not taken for ours.
func TestHashSuite(t *testing.T) {
	for name, s := range suites(t) {
		v := s.log.Verifier()
		if text := must(s.log.Sign(some))(t); !strings.HasPrefix(text, "log.example/audit\n7\n"+some.Root.String()+"\nhash sha256\n\n") {
			t.Errorf("%s: the checkpoint is %q", name, text)
		}
		for extension, ok := range map[string]bool{"": true, "hash sha256\n": true, "note x\n": true, "hash sm3\n": false, "hash \n": false, "note x\nhash sm3\n": false} {
			text := must(s.log.sign("log.example/audit\n7\n" + some.Root.String() + "\n" + extension))(t)
			if got, err := v.Open(text); ok != (err == nil) || ok && got != some {
				t.Errorf("%s: %q: %+v, %v", name, extension, got, err)
			}
		}
	}
}

// TestCheckpointsOfBefore: those signed before the hash suite was recorded stay readable for ever.
func TestCheckpointsOfBefore(t *testing.T) {
	v := must(NewVerifier("log.example/audit+21e90edd+ActssmEd84xYuIV5JU7pLaLYhuLO1qCkPNGxlt3/a2IK"))(t)
	got, err := v.Open("log.example/audit\n7\nPH6byTDck/AfppmF7yQtn56GHzxTVaokzl70tLinDMs=\n\n" +
		"— log.example/audit IekO3Q612N4MWOZnLlEUkbsAZ3ZRNPkUFwwoytZNxjeUn+QUgZTC2mxgjF6RhtQv8DXexlqQW5yt/397145hw8m2kQs=\n")
	if err != nil || got != some {
		t.Errorf("%+v, %v", got, err)
	}
}
