package c2pa

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/veraison/go-cose"
)

// forgery is a manifest made by hand. Each field that is set makes one thing of it other than a signer of this package would.
type forgery struct {
	key         ed25519.PrivateKey
	certificate any // in the header x5chain
	protected   func(cose.ProtectedHeader)
	signed      func(*cose.Sign1Message)
	kind        string
	claims      []string // labels of the boxes of the claim
	claim       func(map[string]any)
	assertions  []assertion // besides the binding and the actions
	unnamed     []assertion
	binding     string // the name of the assertion that binds the file
	again       bool   // two of them
	exclusions  func(Range) []exclusion
	altered     func(box []byte) []byte // the assertions, after they were hashed
	before      [][]byte
	references  func([]hashedURI) []hashedURI
}

// make builds the file around the store. Its length settles after a few rounds.
func (f forgery) make(t testing.TB) ([]byte, Carried) {
	t.Helper()
	at, sum := Range{}, make([]byte, sha256.Size)
	for range 4 {
		store := f.store(t, at, sum)
		var data []byte
		data, at, _ = file(store)
		sum = sumOfRest(data, f.excluded(at))
	}
	data, at, _ := file(f.store(t, at, sum))
	return data, Carried{Store: data[at.From:at.To], At: at}
}

func (f forgery) excluded(at Range) []exclusion {
	if f.exclusions != nil {
		return f.exclusions(at)
	}
	return []exclusion{{uint64(at.From), uint64(at.To - at.From)}}
}

// sumOfRest hashes a file without ranges; those that are not in it are left alone.
func sumOfRest(data []byte, without []exclusion) []byte {
	h, at := sha256.New(), uint64(0)
	for _, e := range without {
		if e.Start < at || e.Start+e.Length > uint64(len(data)) {
			continue
		}
		_, _ = h.Write(data[at:e.Start])
		at = e.Start + e.Length
	}
	_, _ = h.Write(data[at:])
	return h.Sum(nil)
}

func (f forgery) store(t testing.TB, at Range, sum []byte) []byte {
	t.Helper()
	must := func(x assertion, err error) assertion {
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	all := []assertion{must(encoded(actionsAssertion, actions{[]action{{Action: "c2pa.created"}}}))}
	if f.binding != "" {
		bound := must(encoded(f.binding, dataHash{Exclusions: f.excluded(at), Alg: algSHA256, Hash: sum, Pad: []byte{}}))
		all = append(all, bound)
		if f.again {
			all = append(all, assertion{f.binding + "__1", bound.data})
		}
	}
	all = append(all, f.assertions...)
	var refs []hashedURI
	var boxes [][]byte
	for _, x := range all {
		refs = append(refs, x.reference())
	}
	for _, x := range append(all, f.unnamed...) {
		b := x.box()
		if f.altered != nil {
			b = f.altered(b)
		}
		boxes = append(boxes, b)
	}
	if f.references != nil {
		refs = f.references(refs)
	}
	claim := map[string]any{"signature": uriHead + signatureLabel, "alg": algSHA256, "created_assertions": refs}
	if f.claim != nil {
		f.claim(claim)
	}
	text, err := encoding().Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	m := cose.NewSign1Message()
	m.Headers.Protected.SetAlgorithm(cose.AlgorithmEdDSA)
	m.Headers.Protected[cose.HeaderLabelX5Chain] = f.certificate
	if f.protected != nil {
		f.protected(m.Headers.Protected)
	}
	m.Payload = text
	signer, err := cose.NewSigner(cose.AlgorithmEdDSA, f.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Sign(nil, nil, signer); err != nil && f.signed == nil {
		t.Fatal(err)
	}
	m.Payload = nil
	if f.signed != nil {
		f.signed(m)
	}
	signature, err := m.MarshalCBOR()
	if err != nil {
		t.Fatal(err)
	}
	parts := [][]byte{superbox(kindAssertions, assertionsLabel, boxes...), superbox(kindSignature, signatureLabel, boxOf("cbor", signature))}
	for _, name := range f.claims {
		parts = append(parts, superbox(kindClaim, name, boxOf("cbor", text)))
	}
	return superbox(kindStore, "c2pa", append(slices.Clone(f.before), superbox(f.kind, "urn:forged", parts...))...)
}

// certified makes a key and a certificate of it, signed by itself or by the authority.
func certified(t testing.TB, by *Authority, change func(*x509.Certificate)) (ed25519.PrivateKey, []byte) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"示例公司"}}, NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}, BasicConstraintsValid: true,
	}
	if change != nil {
		change(c)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.root, by.key
	}
	der, err := x509.CreateCertificate(nil, c, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// TestForgeries: for each thing that a check holds against a manifest there is one that fails by that alone.
func TestForgeries(t *testing.T) {
	t.Parallel()
	a := authority(t, 2026, 0)
	named := func(name string, value any) assertion {
		x, err := encoded(name, value)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	own := func(change func(*x509.Certificate)) func(*forgery) {
		return func(f *forgery) { f.key, f.certificate = certified(t, a, change) }
	}
	old := superbox(kindManifest, "urn:old", boxOf("free", []byte("old")))
	sum := sha256.Sum256(old[8:])
	toOld := func(hash []byte, url string) assertion {
		return named(ingredientAssertion, map[string]any{"activeManifest": hashedURI{URL: url, Alg: algSHA256, Hash: hash}})
	}
	for name, c := range map[string]struct {
		change func(*forgery)
		state  State
		code   Code
	}{
		"nothing":           {func(*forgery) {}, Trusted, ""},
		"old claim":         {func(f *forgery) { f.claims = []string{claimLabelOld} }, Trusted, ""},
		"another authority": {func(f *forgery) { f.key, f.certificate = certified(t, nil, nil) }, UnknownSigner, CodeUntrusted},
		"an authority signs": {own(func(c *x509.Certificate) {
			c.IsCA, c.KeyUsage = true, x509.KeyUsageDigitalSignature|x509.KeyUsageCertSign
		}), Broken, CodeCredential},
		"other purpose":  {own(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), Broken, CodeCredential},
		"any purpose":    {own(func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageAny) }), Broken, CodeCredential},
		"not to sign":    {own(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), Broken, CodeCredential},
		"no certificate": {func(f *forgery) { f.protected = func(h cose.ProtectedHeader) { delete(h, cose.HeaderLabelX5Chain) } }, Broken, CodeCredential},
		"no DER":         {func(f *forgery) { f.certificate = []byte("x") }, Broken, CodeCredential},
		"many":           {func(f *forgery) { f.certificate = slices.Repeat([]any{f.certificate}, maxChain+1) }, Broken, CodeCredential},
		"another key":    {func(f *forgery) { f.key, _ = certified(t, nil, nil) }, Broken, CodeSignature},
		"unknown alg": {func(f *forgery) {
			f.signed = func(m *cose.Sign1Message) { m.Headers.Protected.SetAlgorithm(-65000); m.Headers.RawProtected = nil }
		}, Unjudged, CodeAlgorithm},
		"critical extension": {func(f *forgery) {
			f.protected = func(h cose.ProtectedHeader) {
				h[int64(99)], h[cose.HeaderLabelCritical] = "x", []any{int64(99)}
			}
		}, Unjudged, CodeAlgorithm},
		"critical certificates": {func(f *forgery) {
			f.protected = func(h cose.ProtectedHeader) { h[cose.HeaderLabelCritical] = []any{cose.HeaderLabelX5Chain} }
		}, Trusted, ""},
		"alg of other key": {func(f *forgery) {
			f.signed = func(m *cose.Sign1Message) {
				m.Headers.Protected.SetAlgorithm(cose.AlgorithmES256)
				m.Headers.RawProtected = nil
			}
		}, Unjudged, CodeAlgorithm},
		"alg unprotected": {func(f *forgery) {
			f.signed = func(m *cose.Sign1Message) {
				delete(m.Headers.Protected, cose.HeaderLabelAlgorithm)
				m.Headers.RawProtected = nil
				m.Headers.Unprotected[cose.HeaderLabelAlgorithm] = cose.AlgorithmEdDSA
			}
		}, Unjudged, CodeAlgorithm},
		"text within":       {func(f *forgery) { f.signed = func(m *cose.Sign1Message) { m.Payload = []byte("x") } }, Broken, CodeSignature},
		"two claims":        {func(f *forgery) { f.claims = []string{claimLabel, claimLabelOld} }, Broken, CodeMalformed},
		"one claim twice":   {func(f *forgery) { f.claims = []string{claimLabel, claimLabel} }, Broken, CodeMalformed},
		"another signature": {func(f *forgery) { f.claim = func(c map[string]any) { c["signature"] = uriHead + assertionsLabel } }, Broken, CodeNoSignature},
		"update":            {func(f *forgery) { f.kind = kindUpdate }, Unjudged, CodeNoBinding},
		"unnamed":           {func(f *forgery) { f.unnamed = []assertion{named("x", "y")} }, Broken, CodeAssertionUnnamed},
		"missing": {func(f *forgery) {
			f.references = func(r []hashedURI) []hashedURI {
				return append(r, hashedURI{URL: uriHead + assertionsLabel + "/none", Hash: sum[:]})
			}
		}, Broken, CodeAssertionMissing},
		"of another manifest": {func(f *forgery) {
			f.references = func(r []hashedURI) []hashedURI {
				return append(r, hashedURI{URL: uriHead + "/c2pa/urn:old", Hash: sum[:]})
			}
			f.before = [][]byte{old}
		}, Broken, CodeAssertionMissing},
		"changed": {func(f *forgery) {
			f.altered = func(b []byte) []byte { return bytes.Replace(b, []byte("c2pa.created"), []byte("c2pa.creatEd"), 1) }
		}, Broken, CodeAssertionChanged},
		"named twice":    {func(f *forgery) { f.references = func(r []hashedURI) []hashedURI { return append(r, r[0]) } }, Broken, CodeMalformed},
		"unknown hash":   {func(f *forgery) { f.claim = func(c map[string]any) { c["alg"] = "md5" } }, Unjudged, CodeAlgorithm},
		"not bound":      {func(f *forgery) { f.binding = "" }, Broken, CodeNoBinding},
		"bound in boxes": {func(f *forgery) { f.binding = ""; f.assertions = []assertion{named("c2pa.hash.bmff.v3", 1)} }, Unjudged, CodeNoBinding},
		"bound twice":    {func(f *forgery) { f.again = true }, Broken, CodeBindings},
		"bound two ways": {func(f *forgery) { f.assertions = []assertion{named("c2pa.hash.boxes", 1)} }, Broken, CodeBindings},
		"more left out": {func(f *forgery) {
			f.exclusions = func(at Range) []exclusion { return []exclusion{{0, 4}, {uint64(at.From), uint64(at.To - at.From)}} }
		}, Unjudged, CodeExclusions},
		"left out beyond": {func(f *forgery) { f.exclusions = func(Range) []exclusion { return []exclusion{{1 << 62, 1 << 62}} } }, Broken, CodeFileChanged},
		"left out twice": {func(f *forgery) {
			f.exclusions = func(at Range) []exclusion {
				return []exclusion{{uint64(at.From), uint64(at.To - at.From)}, {uint64(at.From), 1}}
			}
		}, Broken, CodeFileChanged},
		"no label": {func(f *forgery) { f.assertions = []assertion{named(LabelAssertion, map[string]string{"Label": "1"})} }, Broken, CodeMalformed},
		"other names": {func(f *forgery) {
			f.assertions = []assertion{named(LabelAssertion, map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": ""})}
		}, Broken, CodeMalformed},
		"ingredient": {func(f *forgery) {
			f.before = [][]byte{old}
			f.assertions = []assertion{toOld(sum[:], uriHead+"/c2pa/urn:old")}
		}, Trusted, ""},
		"ingredient changed": {func(f *forgery) {
			f.before = [][]byte{old}
			f.assertions = []assertion{toOld(make([]byte, 32), uriHead+"/c2pa/urn:old")}
		}, Broken, CodeIngredientChanged},
		"ingredient missing": {func(f *forgery) { f.assertions = []assertion{toOld(sum[:], uriHead+"/c2pa/urn:old")} }, Broken, CodeIngredientMissing},
		"ingredient unbound": {func(f *forgery) { f.before = [][]byte{old} }, Broken, CodeUnreferenced},
		"earlier kind binds": {func(f *forgery) {
			f.before = [][]byte{old}
			f.assertions = []assertion{named("c2pa.ingredient", map[string]any{"c2pa_manifest": hashedURI{URL: uriHead + "/c2pa/urn:old", Hash: sum[:]}})}
		}, Trusted, ""},
		"earlier kind broken": {func(f *forgery) {
			f.before = [][]byte{old}
			f.assertions = []assertion{named("c2pa.ingredient", map[string]any{"c2pa_manifest": hashedURI{URL: uriHead + "/c2pa/urn:old", Hash: make([]byte, 32)}})}
		}, Broken, CodeUnreferenced},
	} {
		f := forgery{kind: kindManifest, claims: []string{claimLabel}, binding: dataHashAssertion}
		var der []byte
		var err error
		if f.key, der, err = a.signer(a.cfg.Now()); err != nil {
			t.Fatal(err)
		}
		f.certificate = der
		c.change(&f)
		data, carried := f.make(t)
		if got := Check(data, carried, a.Anchors()); got.State != c.state || got.Code != c.code {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTransplants: a manifest proves nothing in another file.
func TestTransplants(t *testing.T) {
	t.Parallel()
	a := authority(t, 2026, 0)
	data, c := embedded(t, a)
	data[0] ^= 1
	if got := Check(data, c, a.Anchors()); got.State != Broken || got.Code != CodeFileChanged || !got.Proven {
		t.Errorf("%+v", got)
	}
}

// TestWorkIsBounded: whoever names one thing many times has it hashed once. A check would take minutes else.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	a := authority(t, 2026, 0)
	large := superbox(kindManifest, "urn:large", boxOf("free", make([]byte, 1<<20)))
	sum := sha256.Sum256(large[8:])
	r := hashedURI{URL: uriHead + "/c2pa/urn:large", Alg: algSHA256, Hash: sum[:]}
	for name, change := range map[string]func(*forgery){
		"assertions": func(f *forgery) {
			f.assertions = []assertion{{"x", append([]byte{0x5a, 0, 0x10, 0, 0}, make([]byte, 1<<20)...)}}
			f.references = func(all []hashedURI) []hashedURI { return append(all, slices.Repeat(all[len(all)-1:], 100)...) }
		},
		"too many assertions": func(f *forgery) {
			f.references = func(all []hashedURI) []hashedURI { return append(all, slices.Repeat(all[:1], maxReferences)...) }
		},
		"ingredients": func(f *forgery) {
			f.before = [][]byte{large}
			for i := range 100 {
				x, _ := encoded(fmt.Sprintf("%s__%d", ingredientAssertion, i), map[string]any{"activeManifest": r})
				f.assertions = append(f.assertions, x)
			}
		},
		"earlier": func(f *forgery) {
			f.before = [][]byte{large}
			x, _ := encoded(earlierAssertion, slices.Repeat([]hashedURI{r}, 200))
			f.assertions = append(f.assertions, x)
		},
	} {
		f := forgery{kind: kindManifest, claims: []string{claimLabel}, binding: dataHashAssertion}
		f.key, f.certificate = certified(t, nil, nil)
		change(&f)
		data, c := f.make(t)
		_, hashed := checkCounted(data, c, a.Anchors())
		if hashed > 2*len(c.Store) {
			t.Errorf("%s: %d bytes of a store of %d", name, hashed, len(c.Store))
		}
	}
}

// TestNamesOfSigners: a name that would write over the lines of a terminal, or run the other way, is not told; a long one is cut.
func TestNamesOfSigners(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"示例公司": "示例公司", "a\u3000b": "a\u3000b", "x\r\x1b[2KIts content credentials": "", "x\ny": "", "x\u202ey": "", "x\xff": "", strings.Repeat("长", 5000): strings.Repeat("长", maxSigner),
	} {
		if got := signerOf(&x509.Certificate{Subject: pkix.Name{Organization: []string{name}}}); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
