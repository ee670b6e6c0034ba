package c2pa

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/keyring"
)

func authority(t testing.TB, year, generation int) *Authority {
	t.Helper()
	a, err := NewAuthority(Config{
		Keys: keyring.FromBytes(make([]byte, 32)), Producer: "示例公司", Generation: generation,
		Now: func() time.Time { return time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// file is a format of the test: a store between two texts.
func file(store []byte) ([]byte, Range, error) {
	head := []byte("head of the file ")
	out := append(append(bytes.Clone(head), store...), " and its end"...)
	return out, Range{len(head), len(head) + len(store)}, nil
}

func embedded(t testing.TB, a *Authority) ([]byte, Carried) {
	t.Helper()
	out, _, err := a.Attach(Content{Label: label.Label{Label: "1", ContentProducer: "示例公司", ProduceID: "r1"}, Format: "image/png"}, file)
	if err != nil {
		t.Fatal(err)
	}
	at := Range{len("head of the file "), len(out) - len(" and its end")}
	return out, Carried{Store: out[at.From:at.To], At: at}
}

// TestCertificatesStayTheSame: the certificate that outsiders have trusted is the same one after a restart, on every replica and in every release; signers of other years and generations
// are others, and valid from before their first file.
func TestCertificatesStayTheSame(t *testing.T) {
	t.Parallel()
	root := authority(t, 2026, 0).root
	if sum := sha256.Sum256(root.Raw); hex.EncodeToString(sum[:]) != rootDigest {
		t.Errorf("the certificate of the authority is another one: %x", sum)
	}
	seen := map[string]bool{}
	for _, c := range []struct{ year, generation int }{{2026, 0}, {2026, 1}, {2027, 0}} {
		_, der, err := authority(t, c.year, c.generation).signer(time.Date(c.year, 7, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		_, again, _ := authority(t, c.year, c.generation).signer(time.Date(c.year, 7, 1, 0, 0, 0, 0, time.UTC))
		one, err := x509.ParseCertificate(der)
		if err != nil || !bytes.Equal(der, again) || seen[string(one.RawSubjectPublicKeyInfo)] || one.CheckSignatureFrom(root) != nil {
			t.Errorf("%v: %v", c, err)
		}
		seen[string(one.RawSubjectPublicKeyInfo)] = true
		if first := time.Date(c.year, 1, 1, 0, 0, 0, 0, time.UTC); !one.NotBefore.Before(first) || one.NotAfter.Year() != c.year+signerYears {
			t.Errorf("%v: %v to %v", c, one.NotBefore, one.NotAfter)
		}
	}
}

// TestPlacesThatMove: a format in which the store moves, or has another length than was said, gives no file.
func TestPlacesThatMove(t *testing.T) {
	t.Parallel()
	calls := 0
	broken := errors.New("no room")
	for name, place := range map[string]Place{
		"moves": func(store []byte) ([]byte, Range, error) {
			calls++
			out, at, _ := file(store)
			return append(make([]byte, calls), out...), Range{at.From + calls, at.To + calls}, nil
		},
		"fails": func([]byte) ([]byte, Range, error) { return nil, Range{}, broken },
	} {
		if _, _, err := authority(t, 2026, 0).Attach(Content{Label: label.Label{Label: "1"}}, place); err == nil || name == "fails" && !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExclusionsBeyondTheStore: a signer may leave parts of a file out; what a signature does not cover is not called proved.
func TestExclusionsBeyondTheStore(t *testing.T) {
	t.Parallel()
	a := authority(t, 2026, 0)
	out, c := embedded(t, a)
	if got := Check(out, c, a.Anchors()); got.State != Trusted || !got.Proven {
		t.Fatalf("%+v", got)
	}
	c.At.From += 100 // the same, seen from a format that has the store elsewhere
	if got := Check(out, c, a.Anchors()); got.State != Unjudged || got.Code != CodeExclusions {
		t.Errorf("%+v", got)
	}
}

// TestHostileStores: boxes that lie about their length, nest without an end or are too many, and values that claim to be large, are refused at once.
func TestHostileStores(t *testing.T) {
	t.Parallel()
	deep := boxOf("free")
	for range 100 {
		deep = superbox(kindManifest, "x", deep)
	}
	long := boxOf("jumb", []byte("x"))
	binary.BigEndian.PutUint32(long, 1<<31)
	wide := boxOf("jumb", []byte("12345678"))
	binary.BigEndian.PutUint32(wide, 1)
	for name, b := range map[string][]byte{
		"nothing": nil, "zeros": make([]byte, 100), "deep": superbox(kindStore, "c2pa", deep), "long": long, "wide": wide,
		"many":      superbox(kindStore, "c2pa", bytes.Repeat(boxOf("free"), maxBoxes)),
		"large":     make([]byte, MaxStore+1),
		"no claim":  superbox(kindStore, "c2pa", superbox(kindManifest, "m")),
		"two alike": superbox(kindStore, "c2pa", superbox(kindManifest, "m"), superbox(kindManifest, "m")),
		"an array":  superbox(kindStore, "c2pa", superbox(kindManifest, "m", superbox(kindClaim, claimLabel, boxOf("cbor", []byte("\x9a\xff\xff\xff\xff"))))),
		"nested":    superbox(kindStore, "c2pa", superbox(kindManifest, "m", superbox(kindClaim, claimLabel, boxOf("cbor", bytes.Repeat([]byte{0x81}, 1<<20))))),
	} {
		if got := Check(b, Carried{Store: b, At: Range{0, len(b)}}, Anchors{}); got.State != Broken || got.Code != CodeMalformed {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzCheck checks any store: nothing ends the process, and nothing but what the authority signed is proved.
func FuzzCheck(f *testing.F) {
	a := authority(f, 2026, 0)
	out, c := embedded(f, a)
	f.Add(c.Store)
	f.Fuzz(func(t *testing.T, b []byte) {
		data, at, _ := file(b)
		if got := Check(data, Carried{Store: b, At: at}, a.Anchors()); got.State == Trusted && (got.Label == nil || got.Label.ProduceID != "r1" || len(b) < len(c.Store)-64) {
			t.Errorf("%+v of %d bytes, not %d", got, len(data), len(out))
		}
	})
}

// rootDigest is the SHA-256 of the certificate of a master key of zeros.
const rootDigest = "2cb371d2000d091ff53d74a36084fa6d55dd6b3432b8713130172999b060b8f2"

// TestNothingInTheStoreIsLoose: the hash of a file leaves the store out, so what no manifest binds there is not called proved: manifests that nothing names, other boxes, bytes behind them.
func TestNothingInTheStoreIsLoose(t *testing.T) {
	t.Parallel()
	a := authority(t, 2026, 0)
	_, c := embedded(t, a)
	s, err := parseStore(c.Store)
	if err != nil {
		t.Fatal(err)
	}
	own, junk := s.active().bytes(), superbox(kindManifest, "urn:junk", boxOf("free", []byte("pay 100")))
	for name, x := range map[string]struct {
		store   []byte
		anchors bool
		state   State
		code    Code
	}{
		"a manifest, ours":   {superbox(kindStore, "c2pa", junk, own), true, Broken, CodeUnreferenced},
		"a manifest":         {superbox(kindStore, "c2pa", junk, own), false, Unjudged, CodeUnreferenced},
		"a box":              {superbox(kindStore, "c2pa", boxOf("free", []byte("pay")), own), true, Broken, CodeUnreferenced},
		"bytes behind":       {append(superbox(kindStore, "c2pa", own), "pay"...), true, Broken, CodeUnreferenced},
		"zeros behind":       {append(superbox(kindStore, "c2pa", own), 0, 0), true, Broken, CodeUnreferenced},
		"a compressed one":   {superbox(kindStore, "c2pa", own, superbox("c2cm", "urn:z", boxOf("brob", []byte("x")))), true, Unjudged, CodeUnread},
		"only compressed":    {superbox(kindStore, "c2pa", superbox("c2cm", "urn:z", boxOf("brob", []byte("x")))), true, Unjudged, CodeUnread},
		"nothing of it, own": {superbox(kindStore, "c2pa", own), true, Trusted, ""},
	} {
		data, at, _ := file(x.store)
		// The signed range has the length of the store that was signed: it is signed again for this one.
		data, at = resigned(t, a, x.store, own, data, at)
		anchors := a.Anchors()
		if !x.anchors {
			anchors = Anchors{}
		}
		if got := Check(data, Carried{Store: data[at.From:at.To], At: at}, anchors); got.State != x.state || got.Code != x.code {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// resigned puts, in place of the manifest old of a store, one that is signed for a file with that store: what somebody with a key could make, and this package does not write.
func resigned(t testing.TB, a *Authority, whole, old, data []byte, at Range) ([]byte, Range) {
	t.Helper()
	if !bytes.Contains(whole, old) {
		return data, at
	}
	m, err := a.begin(Content{Label: label.Label{Label: "1", ContentProducer: "示例公司", ProduceID: "r1"}, Format: "image/png"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := m.store(at, sumWithout(data, at))
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseStore(made)
	if err != nil || len(s.active().bytes()) != len(old) {
		t.Fatal("it has another length")
	}
	out, at, _ := file(bytes.Replace(whole, old, s.active().bytes(), 1))
	return out, at
}

// TestSignersThatAreNotTrusted: a signer that was revoked, and one of a year that has not come, prove nothing; others go on.
func TestSignersThatAreNotTrusted(t *testing.T) {
	t.Parallel()
	data, c := embedded(t, authority(t, 2026, 1))
	for name, x := range map[string]struct {
		revoked []string
		year    int
		state   State
		code    Code
	}{
		"trusted": {nil, 2026, Trusted, ""}, "revoked": {[]string{"2026-1"}, 2026, Broken, CodeRevoked}, "another revoked": {[]string{"2026-0", "2027-1"}, 2027, Trusted, ""}, "not yet": {nil, 2024, Broken, CodeNotYet},
	} {
		a, err := NewAuthority(Config{
			Keys: keyring.FromBytes(make([]byte, 32)), Producer: "示例公司", Revoked: x.revoked, Now: func() time.Time { return time.Date(x.year, 6, 1, 0, 0, 0, 0, time.UTC) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := Check(data, c, a.Anchors()); got.State != x.state || got.Code != x.code || got.Proven != (x.state == Trusted) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestClock: an authority signs nothing in years for which nobody would take its certificates.
func TestClock(t *testing.T) {
	t.Parallel()
	for year, want := range map[int]error{1970: ErrClock, 2025: ErrClock, 2026: nil, 2074: nil, 2075: ErrClock} {
		if _, _, err := authority(t, year, 0).signer(time.Date(year, 7, 1, 0, 0, 0, 0, time.UTC)); !errors.Is(err, want) {
			t.Errorf("%d: %v", year, err)
		}
	}
}
