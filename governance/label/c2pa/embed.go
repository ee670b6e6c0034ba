package c2pa

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"
	"github.com/veraison/go-cose"

	"github.com/sluice-project/sluice/governance/label"
)

// Names of assertions.
const (
	// LabelAssertion has the seven fields of a label (GB 45438-2025). Its name is the project's, as the standard wants for assertions that it does not know.
	LabelAssertion = "io.github.sluice-project.aigc"

	// earlierAssertion refers to each manifest that the file had before: the hash of the file leaves them out, and the parent binds only those that it came from.
	earlierAssertion = "io.github.sluice-project.earlier"

	actionsAssertion    = "c2pa.actions.v2"
	dataHashAssertion   = "c2pa.hash.data"
	ingredientAssertion = "c2pa.ingredient.v3"
	claimLabel          = "c2pa.claim.v2"
	claimLabelOld       = "c2pa.claim"
	signatureLabel      = "c2pa.signature"
	assertionsLabel     = "c2pa.assertions"
)

const algSHA256 = "sha256"

// hashedURI refers to a box by its hash.
type hashedURI struct {
	URL  string `cbor:"url"`
	Alg  string `cbor:"alg,omitempty"`
	Hash []byte `cbor:"hash"`
}

type generator struct {
	Name string `cbor:"name"`
}

// claim is what is signed.
type claim struct {
	InstanceID string      `cbor:"instanceID"`
	Generator  generator   `cbor:"claim_generator_info"`
	Signature  string      `cbor:"signature"`
	Created    []hashedURI `cbor:"created_assertions"`            // what the signer says
	Gathered   []hashedURI `cbor:"gathered_assertions,omitempty"` // what the signer found, and says nothing of
	Alg        string      `cbor:"alg"`
}

type action struct {
	Action     string             `cbor:"action"`
	Agent      *generator         `cbor:"softwareAgent,omitempty"`
	Parameters *actionIngredients `cbor:"parameters,omitempty"`
}

type actionIngredients struct {
	Ingredients []hashedURI `cbor:"ingredients"`
}

type actions struct {
	Actions []action `cbor:"actions"`
}

// exclusion is a range of the file that its hash leaves out.
type exclusion struct {
	Start  uint64 `cbor:"start"`
	Length uint64 `cbor:"length"`
}

type dataHash struct {
	Exclusions []exclusion `cbor:"exclusions,omitempty"`
	Alg        string      `cbor:"alg,omitempty"`
	Hash       []byte      `cbor:"hash"`
	Pad        []byte      `cbor:"pad"`
}

type status struct {
	Code string `cbor:"code"`
	URL  string `cbor:"url,omitempty"`
}

type statuses struct {
	Success       []status `cbor:"success"`
	Informational []status `cbor:"informational"`
	Failure       []status `cbor:"failure"`
}

type validation struct {
	ActiveManifest statuses `cbor:"activeManifest"`
}

type ingredient struct {
	Format         string      `cbor:"dc:format"`
	Relationship   string      `cbor:"relationship"`
	Results        *validation `cbor:"validationResults,omitempty"`
	ActiveManifest *hashedURI  `cbor:"activeManifest,omitempty"`
	ClaimSignature *hashedURI  `cbor:"claimSignature,omitempty"`
}

// Content is what a manifest says.
type Content struct {
	Label  label.Label
	Format string // media type of the file
	// Foreign says that somebody else's label was found in the file: the manifest has it as gathered, not as said by the signer.
	Foreign bool
	// Parent is the store that the file has already, nil for none, and ParentReport what [Check] said of it before anything of the file was changed.
	Parent       []byte
	ParentReport Report
}

// Range is a part of a file, To excluded.
type Range struct{ From, To int }

// Place puts a store into a file and returns the file and the range of it that the store takes. Stores of one length must have the same place, and the bytes outside of
// it must not depend on the store.
type Place func(store []byte) (file []byte, at Range, err error)

// Attach signs a manifest and returns the file with it, and who signed, as [Config.Revoked] names signers. Errors: those of place, [ErrParent] and [ErrClock].
func (a *Authority) Attach(c Content, place Place) (out []byte, signer string, err error) {
	m, err := a.begin(c)
	if err != nil {
		return nil, "", err
	}
	draft, err := m.store(Range{}, make([]byte, sha256.Size))
	if err != nil {
		return nil, "", err
	}
	if len(draft) > MaxStore {
		return nil, "", ErrParent
	}
	file, at, err := place(draft)
	if err != nil {
		return nil, "", err
	}
	final, err := m.store(at, sumWithout(file, at))
	if err != nil {
		return nil, "", err
	}
	if len(final) != len(draft) {
		return nil, "", errors.New("c2pa: the manifest changed its length")
	}
	out, again, err := place(final)
	if err == nil && again != at {
		err = errors.New("c2pa: the manifest changed its place")
	}
	return out, a.signerName(m.at), err
}

// ErrParent says that the manifest store of a file cannot be kept: it cannot be read, or is too large.
var ErrParent = errors.New("c2pa: the content credentials of the file cannot be kept")

// sumWithout is the SHA-256 of a file without a range.
func sumWithout(file []byte, without Range) []byte {
	h := sha256.New()
	_, _ = h.Write(file[:without.From])
	_, _ = h.Write(file[without.To:])
	return h.Sum(nil)
}

// manifest is one that is being made.
type manifest struct {
	authority *Authority
	at        time.Time // when it is signed; one time, so that a year that ends meanwhile changes nothing
	label     string
	instance  string
	before    [][]byte // the manifests of the parent's store
	earlier   []hashedURI
	fixed     []assertion
	gathered  []assertion
}

// assertion is one with its box.
type assertion struct {
	label string
	data  []byte
}

func (x assertion) box() []byte { return superbox(kindCBOR, x.label, boxOf("cbor", x.data)) }

// reference refers to an assertion from its own manifest.
func (x assertion) reference() hashedURI {
	sum := sha256.Sum256(x.box()[8:])
	return hashedURI{URL: uriHead + assertionsLabel + "/" + x.label, Hash: sum[:]}
}

// encoding writes CBOR in one form only.
func encoding() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic("c2pa: " + err.Error()) // constant options
	}
	return mode
}

func encoded(name string, value any) (assertion, error) {
	data, err := encoding().Marshal(value)
	if err != nil {
		return assertion{}, fmt.Errorf("c2pa: write the assertion %s: %w", name, err)
	}
	return assertion{name, data}, nil
}

// begin makes all of a manifest that does not depend on the file.
func (a *Authority) begin(c Content) (*manifest, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("c2pa: name a manifest: %w", err)
	}
	m := &manifest{authority: a, at: a.cfg.Now(), label: "urn:c2pa:" + id.String(), instance: "urn:uuid:" + id.String()}
	parent, err := m.opened(c)
	if err != nil {
		return nil, err
	}
	m.fixed = append(m.fixed, parent)
	if len(m.earlier) > 0 {
		all, err := encoded(earlierAssertion, m.earlier)
		if err != nil {
			return nil, err
		}
		m.fixed = append(m.fixed, all)
	}
	// Whoever has a file labelled chose what is in it: that it was created here, or by a model, is not known, and not said.
	done, err := encoded(actionsAssertion, actions{[]action{
		{Action: "c2pa.opened", Parameters: &actionIngredients{[]hashedURI{parent.reference()}}},
		{Action: "c2pa.edited.metadata", Agent: &generator{a.cfg.Producer}},
	}})
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for _, f := range c.Label.Fields() {
		fields[f.Name] = f.Value
	}
	marked, err := encoded(LabelAssertion, fields)
	m.fixed = append(m.fixed, done)
	if c.Foreign {
		m.gathered = append(m.gathered, marked)
	} else {
		m.fixed = append(m.fixed, marked)
	}
	return m, err
}

// opened names the file as it was before. It takes over the manifests that it had, the last one as the parent.
func (m *manifest) opened(c Content) (assertion, error) {
	if c.Parent == nil {
		return encoded(ingredientAssertion, ingredient{Format: c.Format, Relationship: "parentOf"})
	}
	s, err := parseStore(c.Parent)
	if err != nil || s.unread || s.loose && !s.padded || len(s.manifests) > maxReferences {
		return assertion{}, ErrParent
	}
	for _, one := range s.manifests {
		sum := sha256.Sum256(one.hashed())
		m.before = append(m.before, one.bytes())
		m.earlier = append(m.earlier, hashedURI{URL: uriHead + "/c2pa/" + one.label, Alg: algSHA256, Hash: sum[:]})
	}
	parent := s.active()
	signature, ok := parent.child(signatureLabel)
	if !ok {
		return assertion{}, ErrParent
	}
	at := uriHead + "/c2pa/" + parent.label
	whole, signed := sha256.Sum256(parent.hashed()), sha256.Sum256(signature.hashed())
	out := ingredient{
		Format: c.Format, Relationship: "parentOf", Results: &validation{statuses{Success: []status{}, Informational: []status{}, Failure: []status{}}},
		ActiveManifest: &hashedURI{URL: at, Alg: algSHA256, Hash: whole[:]},
		ClaimSignature: &hashedURI{URL: at + "/" + signatureLabel, Alg: algSHA256, Hash: signed[:]},
	}
	list := &out.Results.ActiveManifest
	switch r := c.ParentReport; r.State {
	case Trusted, UnknownSigner:
		list.Success = []status{{"claimSignature.validated", at + "/" + signatureLabel}, {"assertion.dataHash.match", at + "/" + assertionsLabel + "/" + dataHashAssertion}}
		if r.State == UnknownSigner {
			list.Failure = []status{{string(CodeUntrusted), at + "/" + signatureLabel}}
		}
	case Broken, Unjudged:
		list.Failure = []status{{string(r.Code), at}}
	}
	return encoded(ingredientAssertion, out)
}

// maxInteger is the longest form of a number below 2³² in CBOR.
const maxInteger = 5

// store writes the store with a hash of the file. Its length does not depend on the range: what numbers are shorter, the padding is longer.
func (m *manifest) store(at Range, sum []byte) ([]byte, error) {
	hash := dataHash{Exclusions: []exclusion{{uint64(at.From), uint64(at.To - at.From)}}, Alg: algSHA256, Hash: sum}
	used := 0
	for _, n := range []uint64{hash.Exclusions[0].Start, hash.Exclusions[0].Length} {
		b, err := encoding().Marshal(n)
		if err != nil || len(b) > maxInteger {
			return nil, errors.New("c2pa: the file is too large")
		}
		used += len(b)
	}
	hash.Pad = make([]byte, 2*maxInteger-used)
	bound, err := encoded(dataHashAssertion, hash)
	if err != nil {
		return nil, err
	}
	all := append([]assertion{bound}, m.fixed...)
	claimed := claim{InstanceID: m.instance, Generator: generator{"Sluice"}, Signature: uriHead + "/c2pa/" + m.label + "/" + signatureLabel, Alg: algSHA256}
	var assertions [][]byte
	for _, x := range all {
		claimed.Created = append(claimed.Created, x.reference())
		assertions = append(assertions, x.box())
	}
	for _, x := range m.gathered {
		claimed.Gathered = append(claimed.Gathered, x.reference())
		assertions = append(assertions, x.box())
	}
	text, err := encoding().Marshal(claimed)
	if err != nil {
		return nil, fmt.Errorf("c2pa: write a claim: %w", err)
	}
	signature, err := m.authority.sign(text, m.at)
	if err != nil {
		return nil, err
	}
	whole := superbox(
		kindManifest, m.label,
		superbox(kindAssertions, assertionsLabel, assertions...),
		superbox(kindClaim, claimLabel, boxOf("cbor", text)),
		superbox(kindSignature, signatureLabel, boxOf("cbor", signature)),
	)
	return superbox(kindStore, "c2pa", slices.Concat(m.before, [][]byte{whole})...), nil
}

// sign returns the COSE_Sign1 over a claim, which does not contain it.
func (a *Authority) sign(text []byte, at time.Time) ([]byte, error) {
	key, certificate, err := a.signer(at)
	if err != nil {
		return nil, err
	}
	signer, err := cose.NewSigner(cose.AlgorithmEdDSA, key)
	if err != nil {
		return nil, fmt.Errorf("c2pa: open the signer: %w", err)
	}
	message := cose.NewSign1Message()
	message.Headers.Protected.SetAlgorithm(cose.AlgorithmEdDSA)
	message.Headers.Protected[cose.HeaderLabelX5Chain] = certificate
	message.Payload = text
	if err := message.Sign(nil, nil, signer); err != nil {
		return nil, fmt.Errorf("c2pa: sign a claim: %w", err)
	}
	message.Payload = nil
	out, err := message.MarshalCBOR()
	if err != nil {
		return nil, fmt.Errorf("c2pa: write a signature: %w", err)
	}
	return out, nil
}
