package evidence

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

// ProvenanceKind is the kind of a parcel with a verdict on where a text comes from. These are its files: the verdict, what it is about, whose name has an ending,
// the proofs, each of one record of a request that the verdict leads to, and the signature with the keys that check it, if there was one.
const (
	ProvenanceKind      = "provenance"
	ProvenanceVerdict   = "verdict.json"
	ProvenanceSubject   = "subject"
	ProvenanceProofs    = "records/"
	ProvenanceSignature = "answer.jws"
	ProvenanceKeys      = "signing-keys.json"
)

// Provenance is what a verifier reads of a verdict, beyond the signature of the parcel.
type Provenance struct {
	Tenant     string
	Conclusion string
	Subject    string         // SHA-256, hex
	Records    []record.Event // proven, in the order of the verdict
	Signature  ProvenanceSigned
}

// ProvenanceSigned is what a check of the result signature inside, or in the subject, has found with the keys inside, which the parcel vouches for. State is what
// the signature is by itself: "none", "authentic", "altered", "unknown_key", "revoked" or "malformed".
type ProvenanceSigned struct {
	State   string `json:"state"`
	Key     string `json:"key,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Request string `json:"request,omitempty"`
	Covers  bool   `json:"covers"` // it is authentic, and was made for exactly the subject
}

// CheckSigned checks a signature of a result beside a subject, or in it, with a set of public keys; beside is "" where there is none. Error: of the keys.
type CheckSigned = func(subject []byte, beside string, keySet []byte) (ProvenanceSigned, error)

// provenanceVerdict has the members of a verdict that a verifier holds against the rest; server/provenance has all of them.
type provenanceVerdict struct {
	Schema     string `json:"schema"`
	Tenant     string `json:"tenant"`
	Conclusion string `json:"conclusion"`
	Subject    struct {
		SHA256 string `json:"sha256"`
	} `json:"subject"`
	Marks struct {
		Signature struct {
			Reason   string   `json:"reason"`
			Requests []string `json:"requests"`
		} `json:"signature"`
	} `json:"marks"`
	Requests []struct {
		ID      string   `json:"id"`
		Records []string `json:"records"`
	} `json:"requests"`
}

// VerifyProvenance checks that a parcel that [VerifyParcel] has found good says one thing: that its verdict is about the subject inside, and that the log has proven each record that the
// verdict names, as one of the tenant and of the request, under a checkpoint that the witnesses, if there are any, have cosigned, and that the signature of the result, if there is one, is what the verdict says of it. The report's problems are added to r.
func VerifyProvenance(f io.ReaderAt, size int64, v checkpoint.Verifier, witnesses checkpoint.Witnesses, check CheckSigned, r *ParcelReport) (Provenance, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return Provenance{}, fmt.Errorf("provenance: %w", err)
	}
	problem := func(kind, name string, err error) {
		r.Problems = append(r.Problems, Problem{Kind: kind, Record: name, Index: -1, Cause: err.Error()})
		r.OK = false
	}
	p, x, err := readProvenance(z, v, witnesses, r.Manifest, problem)
	if err != nil {
		problem("verdict", "", err)
		return p, nil
	}
	if p.Signature, err = checkSigned(z, r.Manifest, x, check); err != nil {
		problem("signature", "", err)
	}
	return p, nil
}

// checkSigned checks the signature of the result, and that the verdict says of it what it is.
func checkSigned(z *zip.Reader, m ParcelManifest, x provenanceVerdict, check CheckSigned) (ProvenanceSigned, error) {
	read := func(name string) (raw []byte, err error) { // nothing of a file that is not there
		if slices.ContainsFunc(m.Files, func(f ParcelFile) bool { return f.Name == name }) {
			raw, err = parcelRead(z, name)
		}
		return raw, err
	}
	subject, err := parcelRead(z, m.Files[subjectOf(m)].Name)
	if err != nil {
		return ProvenanceSigned{}, err
	}
	beside, err := read(ProvenanceSignature)
	if err != nil {
		return ProvenanceSigned{}, err
	}
	keys, err := read(ProvenanceKeys)
	if err != nil {
		return ProvenanceSigned{}, err
	}
	got, err := check(subject, string(beside), keys)
	if err != nil {
		return got, err
	}
	return got, x.agrees(got)
}

// agrees reports where a verdict says something else of the signature than it is. Of the text that was read out of a file only its authenticity is known.
func (x provenanceVerdict) agrees(got ProvenanceSigned) error {
	said := x.Marks.Signature
	foreign := got.State == "authentic" && got.Tenant != x.Tenant
	states := map[string]bool{
		"signature_none": got.State == "none",
		"signature_own":  got.State == "authentic" && !foreign && got.Covers,
		"signature_text": got.State == "authentic" && !foreign && !got.Covers,
		"signature_read": got.State == "authentic" && !foreign,
		"signature_bare": got.State == "authentic" && !foreign && !got.Covers,
		"signature_cut":  got.State == "altered",
		"signature_key":  got.State == "unknown_key" || foreign,
		"signature_gone": got.State == "revoked",
		"signature_bad":  got.State == "malformed",
	}
	if !states[said.Reason] {
		return fmt.Errorf("the verdict says %q of a signature that is %q by the keys inside, and covers the text: %t", said.Reason, got.State, got.Covers)
	}
	if got.State == "authentic" && !foreign && !slices.Equal(said.Requests, []string{got.Request}) {
		return errors.New("the signature is of another request than the verdict says")
	}
	return nil
}

// subjectOf is the place of the subject among the files, -1 if there is none.
func subjectOf(m ParcelManifest) int {
	return slices.IndexFunc(m.Files, func(f ParcelFile) bool { return strings.HasPrefix(f.Name, ProvenanceSubject+".") })
}

func readProvenance(z *zip.Reader, v checkpoint.Verifier, witnesses checkpoint.Witnesses, m ParcelManifest, problem func(kind, name string, err error)) (Provenance, provenanceVerdict, error) {
	var x provenanceVerdict
	raw, err := parcelRead(z, ProvenanceVerdict)
	if err != nil {
		return Provenance{}, x, err
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return Provenance{}, x, errors.New("it cannot be read")
	}
	if x.Schema != "sluice.provenance/1" && x.Schema != "sluice.provenance/2" { // which differ in nothing that is read here
		return Provenance{}, x, errors.New("its schema is unknown to this release: take a newer verifier")
	}
	p := Provenance{Tenant: x.Tenant, Conclusion: x.Conclusion, Subject: x.Subject.SHA256}
	subject := subjectOf(m)
	if subject < 0 || m.Files[subject].SHA256 != x.Subject.SHA256 || m.About["tenant"] != x.Tenant || m.About["conclusion"] != x.Conclusion {
		return Provenance{}, x, errors.New("it is about something else than the rest of the file")
	}
	proven := map[string]record.Event{}
	for _, f := range m.Files {
		if !strings.HasPrefix(f.Name, ProvenanceProofs) {
			continue
		}
		e, err := provenRecord(z, f.Name, v, witnesses)
		if err != nil {
			problem("proof", f.Name, err)
			continue
		}
		proven[e.ID] = e
	}
	for _, request := range x.Requests {
		for _, id := range request.Records {
			e, ok := proven[id]
			switch {
			case !ok:
				problem("proof", id, errors.New("there is no proof of this record"))
			case e.Tenant != x.Tenant || e.Request != request.ID:
				problem("proof", id, errors.New("it is of another tenant or request"))
			default:
				p.Records = append(p.Records, e)
			}
			delete(proven, id)
		}
	}
	for id := range proven {
		problem("proof", id, errors.New("the verdict does not name this record"))
	}
	return p, x, nil
}

func provenRecord(z *zip.Reader, name string, v checkpoint.Verifier, witnesses checkpoint.Witnesses) (record.Event, error) {
	raw, err := parcelRead(z, name)
	if err != nil {
		return record.Event{}, err
	}
	f, err := ParseProofFile(raw)
	if err != nil {
		return record.Event{}, err
	}
	r := VerifyProofFile(f, v, witnesses)
	if !r.OK {
		return record.Event{}, errors.New(r.Problems[0].Cause)
	}
	return *r.Event, nil
}
