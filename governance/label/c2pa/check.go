package c2pa

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"hash"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"

	"github.com/sluice-project/sluice/governance/label"
)

// State is what a check of content credentials comes to.
type State string

// The states.
const (
	// Trusted: everything holds, and the signer's certificate leads to one of those that the caller trusts.
	Trusted State = "trusted"
	// UnknownSigner: everything holds, and who signed says himself who he is.
	UnknownSigner State = "unknown_signer"
	// Broken: something does not hold; the code says what.
	Broken State = "broken"
	// Unjudged: this release cannot check it; the code says why.
	Unjudged State = "unjudged"
)

// Code says what does not hold, in the words of the standard.
type Code string

// The codes of C2PA that a check may give.
const (
	CodeMalformed         Code = "claim.malformed"
	CodeNoSignature       Code = "claimSignature.missing"
	CodeSignature         Code = "claimSignature.mismatch"
	CodeCredential        Code = "signingCredential.invalid"
	CodeUntrusted         Code = "signingCredential.untrusted"
	CodeRevoked           Code = "signingCredential.revoked"
	CodeNotYet            Code = "signingCredential.expired" // in the words of the standard, also of one whose time has not come
	CodeAlgorithm         Code = "algorithm.unsupported"
	CodeAssertionMissing  Code = "assertion.missing"
	CodeAssertionChanged  Code = "assertion.hashedURI.mismatch"
	CodeAssertionUnnamed  Code = "assertion.undeclared"
	CodeNoBinding         Code = "claim.hardBindings.missing"
	CodeBindings          Code = "assertion.multipleHardBindings"
	CodeFileChanged       Code = "assertion.dataHash.mismatch"
	CodeHashMalformed     Code = "assertion.dataHash.malformed"
	CodeExclusions        Code = "assertion.dataHash.additionalExclusionsPresent"
	CodeIngredientChanged Code = "ingredient.manifest.mismatch"
	CodeIngredientMissing Code = "ingredient.manifest.missing"
	CodeUnreferenced      Code = "manifest.unreferenced" // something in the store is bound by nothing
	CodeUnread            Code = "manifest.inaccessible"
)

// Report is what a check found. Everything but State and Code is what the manifest says of itself; where the state is Broken, none of it is to be believed.
type Report struct {
	State State
	Code  Code // of Broken and Unjudged; [CodeUntrusted] of UnknownSigner; "" of Trusted
	// Proven says that the signature over the claim holds and that its certificate leads to one of those that the caller trusts, whatever else does not hold.
	Proven bool
	// Signer is, where the signature holds, the organisation that the certificate names, or its common name: printable characters only, the first 64 of them, "" where there are others. It was not checked unless
	// Proven is set.
	Signer string
	// Label is the label in the manifest, nil for none.
	Label *label.Label
	// Earlier is how many manifests the file had before, which are kept.
	Earlier int
}

// Carried is a manifest store in a file.
type Carried struct {
	Store []byte
	At    Range // what of the file the store takes, with what the format puts around it
	// Entered says that the file refers to bytes within At as to parts of its own content, which no honest file does: signatures leave those bytes out.
	Entered bool
}

// Check checks the active manifest of a file: its signature, its assertions, and that the file is the one that was signed.
func Check(file []byte, c Carried, anchors Anchors) Report {
	r, _ := checkCounted(file, c, anchors)
	return r
}

// checkCounted is Check, and says how many bytes of boxes it hashed.
func checkCounted(file []byte, c Carried, anchors Anchors) (r Report, hashed int) {
	s, err := parseStore(c.Store)
	if err != nil || c.Entered || c.At.From < 0 || c.At.To < c.At.From || c.At.To > len(file) {
		return Report{State: Broken, Code: CodeMalformed}, 0
	}
	if s.unread { // the newest manifest may be one of those that are not read
		return Report{State: Unjudged, Code: CodeUnread, Earlier: max(0, len(s.manifests)-1)}, 0
	}
	k := &check{store: s, manifest: s.active(), file: file, at: c.At, sums: map[sumOf][]byte{}}
	k.report.Earlier = len(s.manifests) - 1
	if k.manifest.kind == kindUpdate { // it speaks of another manifest, and not of the file
		return Report{State: Unjudged, Code: CodeNoBinding, Earlier: k.report.Earlier}, 0
	}
	for _, step := range []func() Code{k.claimed, k.signed, k.assertions, k.bound, k.reached} {
		if code := step(); code != "" {
			k.report.Code = code
			break
		}
	}
	k.report.Proven = k.authentic && k.leads(anchors)
	if code := anchors.refuses(k.certificates); k.report.Proven && code != "" {
		k.report.Proven, k.report.Code = false, code
	}
	switch {
	case slices.Contains([]Code{CodeAlgorithm, CodeExclusions}, k.report.Code) || k.report.Code == CodeUnreferenced && !k.report.Proven || k.report.Code == CodeNoBinding && k.otherBinding:
		k.report.State = Unjudged
	case k.report.Code != "":
		k.report.State = Broken
	case k.report.Proven:
		k.report.State = Trusted
	default:
		k.report.State, k.report.Code = UnknownSigner, CodeUntrusted
	}
	return k.report, k.hashed
}

// check is one that is under way.
type check struct {
	store    store
	manifest box
	file     []byte
	at       Range
	report   Report

	claim        readClaim
	text         []byte // of the claim
	certificates []*x509.Certificate
	authentic    bool // the signature holds
	otherBinding bool // the file is bound by an assertion that this release does not know
	sums         map[sumOf][]byte
	hashed       int // bytes of boxes, each of which is hashed once
}

// readClaim is what of claims is read, of both versions.
type readClaim struct {
	Signature string      `cbor:"signature"`
	Old       []hashedURI `cbor:"assertions"`
	Created   []hashedURI `cbor:"created_assertions"`
	Gathered  []hashedURI `cbor:"gathered_assertions"`
	Alg       string      `cbor:"alg"`
}

// The bounds of what is read of CBOR.
const (
	maxLevels      = 16
	maxItems       = 16 << 10
	maxReferences  = 256 // of a claim to assertions, and to earlier manifests
	maxIngredients = 64  // of a manifest
	maxSigner      = 64  // characters of a name that are told
)

// decode reads one value of CBOR, and nothing behind it.
func decode(data []byte, into any) error {
	mode, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: maxLevels, MaxArrayElements: maxItems, MaxMapPairs: maxItems}.DecMode()
	if err != nil {
		panic("c2pa: " + err.Error()) // constant options
	}
	return mode.Unmarshal(data, into)
}

// claimed reads the claim.
func (k *check) claimed() Code {
	b, ok := k.manifest.child(claimLabel)
	old, oldOK := k.manifest.child(claimLabelOld)
	if ok == oldOK { // none, or both
		return CodeMalformed
	}
	if oldOK {
		b = old
	}
	if k.text = b.value(); k.text == nil || decode(k.text, &k.claim) != nil {
		return CodeMalformed
	}
	return ""
}

// message is a COSE_Sign1 with or without its tag.
func message(b []byte) (*cose.Sign1Message, error) {
	var m cose.Sign1Message
	err := m.UnmarshalCBOR(b)
	if err == nil {
		return &m, nil
	}
	var plain cose.UntaggedSign1Message
	if plain.UnmarshalCBOR(b) != nil {
		return nil, err
	}
	m = cose.Sign1Message(plain)
	return &m, nil
}

// signed checks the signature over the claim.
func (k *check) signed() Code {
	own, ok := k.manifest.child(signatureLabel)
	named, found := k.store.resolve(k.claim.Signature, k.manifest)
	if !ok || !found || !own.same(named) {
		return CodeNoSignature
	}
	m, err := message(own.value())
	if err != nil || m.Payload != nil {
		return CodeSignature
	}
	algorithm, err := m.Headers.Protected.Algorithm()
	if err != nil {
		return CodeAlgorithm
	}
	if !understood(m.Headers.Protected) {
		return CodeAlgorithm
	}
	if k.certificates = chain(m.Headers); len(k.certificates) == 0 {
		return CodeCredential
	}
	leaf := k.certificates[0]
	if !suitable(leaf) {
		return CodeCredential
	}
	verifier, err := cose.NewVerifier(algorithm, leaf.PublicKey)
	if err != nil {
		return CodeAlgorithm
	}
	m.Payload = k.text
	if k.authentic = m.Verify(nil, verifier) == nil; !k.authentic {
		return CodeSignature
	}
	k.report.Signer = signerOf(leaf)
	return ""
}

// understood reports whether this release knows what a signature says must be understood (crit, RFC 9052): the algorithm and the certificates. An extension
// may change what the signature means.
func understood(h cose.ProtectedHeader) bool {
	critical, err := h.Critical()
	return err == nil && !slices.ContainsFunc(critical, func(label any) bool { return label != cose.HeaderLabelAlgorithm && label != cose.HeaderLabelX5Chain })
}

// maxChain is how many certificates of a signer are read.
const maxChain = 8

// chain returns the certificates of a signer, its own first. Earlier versions of the standard have them unprotected, and under a name.
func chain(h cose.Headers) []*x509.Certificate {
	var value any
	for _, header := range []map[any]any{h.Protected, h.Unprotected} {
		for _, key := range []any{cose.HeaderLabelX5Chain, "x5chain"} {
			if value == nil {
				value = header[key]
			}
		}
	}
	var raw []any
	switch v := value.(type) {
	case []byte:
		raw = []any{v}
	case []any:
		raw = v
	}
	if len(raw) > maxChain {
		return nil
	}
	var out []*x509.Certificate
	for _, one := range raw {
		der, _ := one.([]byte)
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil
		}
		out = append(out, c)
	}
	return out
}

// signerOf is the name in a certificate, as far as it can be shown to people: a certificate of somebody may have a name that writes over other lines of a terminal, or megabytes of it.
func signerOf(c *x509.Certificate) string {
	name := c.Subject.CommonName
	if len(c.Subject.Organization) > 0 {
		name = c.Subject.Organization[0]
	}
	letters := []rune(name[:min(len(name), 4*maxSigner)])
	letters = letters[:min(len(letters), maxSigner)]
	for _, r := range letters {
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) || r == utf8.RuneError {
			return ""
		}
	}
	return string(letters)
}

// suitable reports whether a certificate is one for signing claims: of no authority, for signatures, and for the purposes of the standard only.
func suitable(c *x509.Certificate) bool {
	purposes := c.UnknownExtKeyUsage
	signs := slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageEmailProtection) || slices.ContainsFunc(purposes, func(id asn1.ObjectIdentifier) bool {
		return id.Equal(documentSigning()) || id.Equal(claimSigning()) || id.Equal(microsoftC2PA())
	})
	other := slices.ContainsFunc(c.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageAny || u == x509.ExtKeyUsageTimeStamping || u == x509.ExtKeyUsageOCSPSigning
	})
	return c.Version == 3 && !c.IsCA && c.KeyUsage&x509.KeyUsageDigitalSignature != 0 && signs && !other
}

// leads reports whether the signer's certificate leads to one of the anchors. That it has run out does not count: its times are for programs that have a time stamp to hold
// against them, and an anchor is trusted until it is taken away.
func (k *check) leads(anchors Anchors) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, a := range anchors.Certificates {
		roots.AddCert(a)
	}
	for _, c := range k.certificates[1:] {
		between.AddCert(c)
	}
	_, err := k.certificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: k.certificates[0].NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}

// clockSkew is how far in the future a certificate of ours may begin: clocks differ, and those of this package begin a month before.
const clockSkew = 24 * time.Hour

// refuses says why a signer that leads to the anchors is not trusted: its key was revoked, or its time has not come, so that whoever has the key made it for later.
func (a Anchors) refuses(chain []*x509.Certificate) Code {
	if len(chain) == 0 {
		return ""
	}
	key, _ := chain[0].PublicKey.(ed25519.PublicKey)
	switch {
	case a.revoked[string(key)]:
		return CodeRevoked
	case a.now != nil && chain[0].NotBefore.After(a.now().Add(clockSkew)):
		return CodeNotYet
	default:
		return ""
	}
}

// hasher is the hash of a name; nil for one that the standard does not have.
func hasher(name string) hash.Hash {
	switch name {
	case algSHA256:
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	default:
		return nil
	}
}

// labelFields is how many fields a label has.
const labelFields = 7

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// sumOf names a hash of a box.
type sumOf struct {
	box *byte // its first
	alg string
}

// matches holds a box against a reference; ok is false for an algorithm that is not known.
func (k *check) matches(r hashedURI, b box) (yes, ok bool) { return k.matchesBy(r, b, k.claim.Alg) }

// matchesBy is matches for a reference of another manifest, whose claim names another algorithm.
func (k *check) matchesBy(r hashedURI, b box, alg string) (yes, ok bool) {
	alg = first(r.Alg, alg, algSHA256)
	h := hasher(alg)
	if h == nil || len(b.data) == 0 {
		return false, false
	}
	name := sumOf{&b.data[0], alg}
	if k.sums[name] == nil {
		_, _ = h.Write(b.hashed())
		k.hashed += len(b.hashed())
		k.sums[name] = h.Sum(nil)
	}
	return bytes.Equal(k.sums[name], r.Hash), true
}

// assertions checks that the assertions of the manifest are those that the claim names, unchanged, and reads those that are known here.
func (k *check) assertions() Code {
	all, ok := k.manifest.child(assertionsLabel)
	if !ok {
		return CodeMalformed
	}
	references := slices.Concat(k.claim.Old, k.claim.Created, k.claim.Gathered)
	if len(references) > maxReferences {
		return CodeMalformed
	}
	named := map[string]bool{}
	for _, r := range references {
		b, ok := k.store.resolve(r.URL, k.manifest)
		own, inside := all.child(b.label)
		if !ok || !inside || !own.same(b) {
			return CodeAssertionMissing
		}
		if named[b.label] { // no honest claim names one twice, and each is hashed
			return CodeMalformed
		}
		same, known := k.matches(r, b)
		if !known {
			return CodeAlgorithm
		}
		if !same {
			return CodeAssertionChanged
		}
		named[b.label] = true
	}
	for _, b := range all.children {
		if b.name == "jumb" && !named[b.label] {
			return CodeAssertionUnnamed
		}
	}
	ingredients := 0
	for _, b := range all.children {
		if strings.HasPrefix(b.label, "c2pa.ingredient") {
			if ingredients++; ingredients > maxIngredients {
				return CodeMalformed
			}
		}
		if code := k.read(b); code != "" {
			return code
		}
	}
	return ""
}

// nameOf is the name of an assertion without the number that tells those of one name apart.
func nameOf(label string) string {
	name, _, _ := strings.Cut(label, "__")
	return name
}

// read takes what is known from an assertion.
func (k *check) read(b box) Code {
	data := b.value()
	switch nameOf(b.label) {
	case LabelAssertion:
		var fields map[string]string
		if decode(data, &fields) != nil || len(fields) != labelFields {
			return CodeMalformed
		}
		for _, f := range (label.Label{}).Fields() {
			if _, ok := fields[f.Name]; !ok {
				return CodeMalformed
			}
		}
		k.report.Label = &label.Label{
			Label: fields["Label"], ContentProducer: fields["ContentProducer"], ProduceID: fields["ProduceID"], ReservedCode1: fields["ReservedCode1"],
			ContentPropagator: fields["ContentPropagator"], PropagateID: fields["PropagateID"], ReservedCode2: fields["ReservedCode2"],
		}
	case ingredientAssertion:
		return k.kept(data)
	case earlierAssertion:
		return k.keptAll(data)
	case dataHashAssertion:
	default:
		k.otherBinding = k.otherBinding || strings.HasPrefix(b.label, "c2pa.hash.")
	}
	return ""
}

// kept checks that the manifest of an ingredient is the one that was there.
func (k *check) kept(data []byte) Code {
	var x struct {
		ActiveManifest *hashedURI `cbor:"activeManifest"`
	}
	if decode(data, &x) != nil {
		return CodeMalformed
	}
	if x.ActiveManifest == nil {
		return ""
	}
	return k.keptOne(*x.ActiveManifest)
}

// keptAll checks the manifests that a file of this project had before.
func (k *check) keptAll(data []byte) Code {
	var all []hashedURI
	if decode(data, &all) != nil || len(all) > maxReferences {
		return CodeMalformed
	}
	for _, r := range all {
		if code := k.keptOne(r); code != "" {
			return code
		}
	}
	return ""
}

func (k *check) keptOne(r hashedURI) Code {
	b, ok := k.store.resolve(r.URL, k.manifest)
	if !ok {
		return CodeIngredientMissing
	}
	same, known := k.matches(r, b)
	switch {
	case !known:
		return CodeAlgorithm
	case !same:
		return CodeIngredientChanged
	}
	return ""
}

// reached checks that all that is in the store is bound by the active manifest, or by one that it binds. The hash of the file leaves the store out.
func (k *check) reached() Code {
	if k.store.loose {
		return CodeUnreferenced
	}
	reached := map[string]bool{k.manifest.label: true}
	for queue := []box{k.manifest}; len(queue) > 0; queue = queue[1:] {
		alg, all := queue[0].references()
		for _, r := range all {
			b, ok := k.store.resolve(r.URL, queue[0])
			if !ok || b.kind != kindManifest && b.kind != kindUpdate || reached[b.label] {
				continue
			}
			if same, _ := k.matchesBy(r, b, alg); same {
				reached[b.label], queue = true, append(queue, b)
			}
		}
	}
	if len(reached) < len(k.store.manifests) {
		return CodeUnreferenced
	}
	return ""
}

// references returns what a manifest says of other manifests of its store, in the forms of all versions, and the algorithm of its claim. What cannot be read refers to nothing.
func (b box) references() (alg string, out []hashedURI) {
	for _, name := range []string{claimLabel, claimLabelOld} {
		var x readClaim
		if c, ok := b.child(name); ok && decode(c.value(), &x) == nil {
			alg = x.Alg
		}
	}
	all, _ := b.child(assertionsLabel)
	for _, a := range all.children {
		switch data := a.value(); nameOf(a.label) {
		case earlierAssertion:
			var more []hashedURI
			if decode(data, &more) == nil && len(more) <= maxReferences {
				out = append(out, more...)
			}
		case ingredientAssertion, "c2pa.ingredient.v2", "c2pa.ingredient":
			var x struct {
				Active *hashedURI `cbor:"activeManifest"`
				Old    *hashedURI `cbor:"c2pa_manifest"`
			}
			if len(out) > maxReferences+maxIngredients || decode(data, &x) != nil {
				continue
			}
			for _, r := range []*hashedURI{x.Active, x.Old} {
				if r != nil {
					out = append(out, *r)
				}
			}
		}
	}
	return alg, out
}

// bound checks that the file is the one that was signed.
func (k *check) bound() Code {
	all, _ := k.manifest.child(assertionsLabel)
	var found []box
	for _, b := range all.children {
		if nameOf(b.label) == dataHashAssertion {
			found = append(found, b)
		}
	}
	switch {
	case len(found) == 0:
		return CodeNoBinding
	case len(found) > 1 || k.otherBinding:
		return CodeBindings
	}
	var x struct {
		Exclusions []exclusion `cbor:"exclusions"`
		Alg        string      `cbor:"alg"`
		Hash       []byte      `cbor:"hash"`
	}
	if decode(found[0].value(), &x) != nil {
		return CodeHashMalformed
	}
	h := hasher(first(x.Alg, k.claim.Alg, algSHA256))
	if h == nil {
		return CodeAlgorithm
	}
	at, beyond, size := uint64(0), false, uint64(len(k.file))
	for _, e := range x.Exclusions {
		if e.Start < at || e.Start > size || e.Length > size-e.Start {
			return CodeFileChanged // what was left out is not there: the file was another one
		}
		_, _ = h.Write(k.file[at:e.Start])
		at = e.Start + e.Length
		beyond = beyond || e.Length > 0 && (e.Start < uint64(k.at.From) || at > uint64(k.at.To))
	}
	_, _ = h.Write(k.file[at:])
	switch {
	case !bytes.Equal(h.Sum(nil), x.Hash):
		return CodeFileChanged
	case beyond:
		return CodeExclusions
	}
	return ""
}
