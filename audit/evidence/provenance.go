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
}

// provenanceVerdict has the members of a verdict that a verifier holds against the rest; server/provenance has all of them.
type provenanceVerdict struct {
	Schema     string `json:"schema"`
	Tenant     string `json:"tenant"`
	Conclusion string `json:"conclusion"`
	Subject    struct {
		SHA256 string `json:"sha256"`
	} `json:"subject"`
	Requests []struct {
		ID      string   `json:"id"`
		Records []string `json:"records"`
	} `json:"requests"`
}

// VerifyProvenance checks that a parcel that [VerifyParcel] has found good says one thing: that its verdict is about the subject inside, and that the log has proven each record that the
// verdict names, as one of the tenant and of the request, under a checkpoint that the witnesses, if there are any, have cosigned. The report's problems are added to r.
func VerifyProvenance(f io.ReaderAt, size int64, v checkpoint.Verifier, witnesses checkpoint.Witnesses, r *ParcelReport) (Provenance, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return Provenance{}, fmt.Errorf("provenance: %w", err)
	}
	problem := func(kind, name string, err error) {
		r.Problems = append(r.Problems, Problem{Kind: kind, Record: name, Index: -1, Cause: err.Error()})
		r.OK = false
	}
	p, err := readProvenance(z, v, witnesses, r.Manifest, problem)
	if err != nil {
		problem("verdict", "", err)
	}
	return p, nil
}

func readProvenance(z *zip.Reader, v checkpoint.Verifier, witnesses checkpoint.Witnesses, m ParcelManifest, problem func(kind, name string, err error)) (Provenance, error) {
	raw, err := parcelRead(z, ProvenanceVerdict)
	if err != nil {
		return Provenance{}, err
	}
	var x provenanceVerdict
	if err := json.Unmarshal(raw, &x); err != nil {
		return Provenance{}, errors.New("it cannot be read")
	}
	p := Provenance{Tenant: x.Tenant, Conclusion: x.Conclusion, Subject: x.Subject.SHA256}
	subject := slices.IndexFunc(m.Files, func(f ParcelFile) bool { return strings.HasPrefix(f.Name, ProvenanceSubject+".") })
	if subject < 0 || m.Files[subject].SHA256 != x.Subject.SHA256 || m.About["tenant"] != x.Tenant || m.About["conclusion"] != x.Conclusion {
		return Provenance{}, errors.New("it is about something else than the rest of the file")
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
	return p, nil
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
