package provenance

import (
	"slices"
	"time"
)

// Schema is what verdicts of this release say of themselves. Those of sluice.provenance/1 have no credentials and know no revoked watermark key.
const Schema = "sluice.provenance/2"

// Verdict says where a text comes from. Its JSON form is what an evidence parcel has: never change it, raise the schema.
type Verdict struct {
	Schema     string     `json:"schema"`
	Issuer     string     `json:"issuer"`
	Tenant     string     `json:"tenant"`
	Time       time.Time  `json:"time"`
	Subject    Subject    `json:"subject"`
	Conclusion Conclusion `json:"conclusion"`
	// Contradictions are why Conclusion is Contradictory, in a fixed order; empty otherwise.
	Contradictions []Contradiction `json:"contradictions"`
	// Limits are what the verdict does not prove, ids of the catalogues behind "provenance.limits_", in a fixed order. A court asks for these first.
	Limits []string `json:"limits"`
	Marks  Marks    `json:"marks"`
	// Requests are those that marks lead to, the surest first; at most maxRequests.
	Requests []Request `json:"requests"`
	// MoreRequests says that the text leads to others, too, as a text that many answers share.
	MoreRequests bool `json:"more_requests"`
}

// Subject is what was asked about, which is not kept.
type Subject struct {
	Name       string `json:"name,omitempty"` // of the file
	Kind       string `json:"kind"`
	Bytes      int    `json:"bytes"`
	SHA256     string `json:"sha256"` // of the text in UTF-8, or of the file; hexadecimal
	Characters int    `json:"characters"`
}

// Marks are what was found of each mark.
type Marks struct {
	Label Mark `json:"label"`
	// Credentials are the content credentials (C2PA) of a file, which bind its label to its bytes.
	Credentials Mark `json:"credentials"`
	Signature   Mark `json:"signature"`
	Watermark   Mark `json:"watermark"`
	Registry    Mark `json:"registry"`
}

// Mark is what was found of one mark.
type Mark struct {
	Result     Result     `json:"result"`
	Reason     Reason     `json:"reason"`
	Confidence Confidence `json:"confidence"`
	// Log10P is the decimal logarithm of a bound: so likely is it, at most, that a text which was written without the key scores as high, all that was tried
	// taken into account; of a watermark.
	Log10P *float64 `json:"log10_p,omitempty"`
	// Passage is where in the text a watermark is strongest; absent where it is not told.
	Passage *Passage `json:"passage,omitempty"`
	// Share estimates which part of the text stands in the best answer, between 0 and 1, where wording that very many answers have does not count unless the answer is the whole text; Verified of its
	// Letters do so for certain, letter for letter. Both are of the registry, as is Since: what was answered before is not in it.
	Share    *float64   `json:"share,omitempty"`
	Verified int        `json:"verified_letters,omitempty"`
	Letters  int        `json:"compared_letters,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	// Requests are those that the mark leads to, best first.
	Requests []string `json:"requests,omitempty"`
	Key      string   `json:"key,omitempty"`   // id of the key
	Model    string   `json:"model,omitempty"` // of a signature and of a watermark
	Producer string   `json:"producer,omitempty"`
	Signer   string   `json:"signer,omitempty"`         // of content credentials whose signature holds: whom the certificate names
	Code     string   `json:"code,omitempty"`           // of content credentials: what does not hold, in the words of the standard
	Counted  int      `json:"counted_tokens,omitempty"` // of a watermark
	Least    int      `json:"least_tokens,omitempty"`   // that it takes

	more    bool     // requests than Requests has
	related []string // requests of all answers that have any part of the text; there are others if untold is set
	untold  bool
}

// Passage is a part of a text, in bytes of UTF-8, End excluded.
type Passage struct {
	Begin int `json:"begin"`
	End   int `json:"end"`
}

// Result is what a mark says of the text.
type Result string

// The results.
const (
	Confirmed Result = "confirmed"  // this installation's, and it fits
	Partial   Result = "partial"    // a part, or an edited form, of something of this installation
	Indicated Result = "indicated"  // too weak to rest on
	Refuted   Result = "refuted"    // it was altered, or belongs to something else
	Foreign   Result = "foreign"    // somebody else's, which cannot be checked here
	Absent    Result = "absent"     // not there
	CannotSay Result = "cannot_say" // the mark cannot be judged on this text
)

// Reason is why a result is what it is: an id of the catalogues behind "provenance.reason_".
type Reason string

// The reasons.
const (
	LabelOwn      Reason = "label_own"      // issued here for a request of this tenant
	LabelUnproven Reason = "label_unproven" // names a producer of this name, and was not made here for this tenant
	LabelForeign  Reason = "label_foreign"  // of another producer
	LabelBroken   Reason = "label_broken"   // there, and unreadable
	LabelNone     Reason = "label_none"     // the file has none
	LabelBareText Reason = "label_bare"     // a text without a file has no place for one

	CredentialsOwn      Reason = "credentials_own"      // signed here for this tenant, and not one byte has changed
	CredentialsPassed   Reason = "credentials_passed"   // signed here, when this tenant passed the file on
	CredentialsOther    Reason = "credentials_other"    // signed here, with a label of none of this tenant's requests; for whom is not told
	CredentialsUnknown  Reason = "credentials_unknown"  // they hold, and nobody here knows who signed
	CredentialsChanged  Reason = "credentials_changed"  // signed here, for other bytes
	CredentialsBroken   Reason = "credentials_broken"   // they do not hold
	CredentialsUnjudged Reason = "credentials_unjudged" // this release cannot check them
	CredentialsNone     Reason = "credentials_none"
	CredentialsNoPlace  Reason = "credentials_no_place" // no file of a kind that has them

	SignatureOwn  Reason = "signature_own"  // authentic, for exactly these texts
	SignatureRead Reason = "signature_read" // authentic, for the text that was read from the file
	SignatureText Reason = "signature_text" // authentic, for other texts
	SignatureBare Reason = "signature_bare" // there is no text to hold it against
	SignatureCut  Reason = "signature_cut"  // it does not belong to its statement
	SignatureKey  Reason = "signature_key"  // by a key that is none of this tenant's
	SignatureGone Reason = "signature_gone" // by a key that was revoked
	SignatureBad  Reason = "signature_bad"  // no signature of a result
	SignatureNone Reason = "signature_none" // none was given

	WatermarkFound  Reason = "watermark_found"
	WatermarkWeak   Reason = "watermark_weak"
	WatermarkGone   Reason = "watermark_gone" // by a key that was revoked
	WatermarkNone   Reason = "watermark_none"
	WatermarkShort  Reason = "watermark_short"  // too few tokens
	WatermarkNoKey  Reason = "watermark_no_key" // nothing of this tenant was ever marked
	WatermarkNoText Reason = "watermark_no_text"
	WatermarkLong   Reason = "watermark_long" // more text than is examined
	WatermarkKeys   Reason = "watermark_keys" // not found by the keys that were tried, and there are others
	WatermarkOff    Reason = "watermark_off"

	RegistryExact  Reason = "registry_exact"
	RegistryPart   Reason = "registry_part"
	RegistryWeak   Reason = "registry_weak"
	RegistryCommon Reason = "registry_common" // only wording that very many answers have
	RegistryNone   Reason = "registry_none"
	RegistryEmpty  Reason = "registry_empty" // no answer of this tenant was ever registered
	RegistryShort  Reason = "registry_short"
	RegistryLong   Reason = "registry_long" // more text than is compared
	RegistryNoText Reason = "registry_no_text"
	RegistryOff    Reason = "registry_off"
	RegistryDown   Reason = "registry_unavailable"
)

// Confidence is what a result rests on.
type Confidence string

// The kinds of confidence.
const (
	ByPublicKey  Confidence = "public_key"  // anybody can check it with the public key
	BySecretKey  Confidence = "secret_key"  // only this installation can check it
	ByStatistics Confidence = "statistics"  // with the probability P of chance
	ByComparison Confidence = "comparison"  // with the share that agrees, by keyed fingerprints that only this installation can compare
	Declared     Confidence = "declaration" // somebody says so
	None         Confidence = "none"
)

// Conclusion is what the marks say together: an id of the catalogues behind "provenance.conclusion_", whose texts say too what it does not prove.
type Conclusion string

// The conclusions, from the strongest.
const (
	Unchanged     Conclusion = "unchanged"     // this installation delivered exactly this text, as its signature proves
	OtherText     Conclusion = "other_text"    // its signature is authentic, and of another text
	Derived       Conclusion = "derived"       // most of it, or all, is in what it delivered; which was written first is not told
	Wording       Conclusion = "wording"       // it, or a passage of it, has the wording of one of this tenant's models
	IssuedHere    Conclusion = "issued_here"   // this installation labelled exactly this file, as its content credentials prove; what is in it was not compared with an answer
	SignedHere    Conclusion = "signed_here"   // this installation signed exactly this file, with a label of none of this tenant's answers
	OtherFile     Conclusion = "other_file"    // its content credentials are this installation's, and of another file
	Hint          Conclusion = "hint"          // something points here, nothing proves it
	LabelledHere  Conclusion = "labelled_here" // it carries a label of this installation, and nothing ties the label to the text
	LabelledAway  Conclusion = "labelled_away" // it says of itself that somebody else's machine made it
	NothingFound  Conclusion = "nothing_found"
	TooLittle     Conclusion = "too_little" // it could not be judged
	Contradictory Conclusion = "contradictory"
)

// Contradiction is one between marks, or of a mark with itself: an id of the catalogues behind "provenance.contradiction_".
type Contradiction string

// The contradictions.
const (
	AlteredLabel     Contradiction = "altered_label"        // the text leads here, and its label names this producer without being made here
	AlteredSignature Contradiction = "altered_signature"    // somebody changed the signature, or made it up
	BorrowedSign     Contradiction = "borrowed_sign"        // the signature is of another answer than the text comes from
	BorrowedLabel    Contradiction = "borrowed_label"       // the label is of another answer than the text comes from
	BorrowedCreds    Contradiction = "borrowed_credentials" // the content credentials are of another answer than the text comes from
	TwoRequests      Contradiction = "two_requests"         // label and signature name different requests
)

// Request is one that marks lead to.
type Request struct {
	ID      string    `json:"id"`
	By      []string  `json:"by"` // the marks: label, credentials, signature, registry
	Time    time.Time `json:"time,omitzero"`
	Model   string    `json:"model,omitempty"`
	Version string    `json:"version,omitempty"`
	// Records are ids of its records in the audit log; empty where they are kept no more.
	Records []string `json:"records"`
}

// LeadsHere reports whether the marks show, together, that this installation delivered the text, most of it, or its wording.
func (v Verdict) LeadsHere() bool {
	return v.Conclusion == Unchanged || v.Conclusion == Derived || v.Conclusion == Wording
}

// maxRequests bounds the requests of a verdict.
const maxRequests = 5

// conclude draws the conclusion from the marks.
func (v *Verdict) conclude() {
	v.MoreRequests = v.Marks.Registry.more
	v.Contradictions, v.Requests = v.contradictions(), []Request{}
	m := v.Marks
	content := []Result{m.Signature.Result, m.Registry.Result, m.Watermark.Result}
	has := func(r Result) bool { return slices.Contains(content, r) }
	switch {
	case len(v.Contradictions) > 0:
		v.Conclusion = Contradictory
	case m.Signature.Result == Confirmed:
		v.Conclusion = Unchanged
	case m.Signature.Reason == SignatureText: // whoever shows a signature beside a text that was changed does not hear that it leads here, though its requests are named
		v.Conclusion = OtherText
	case m.Credentials.Reason == CredentialsChanged: // the same of a file
		v.Conclusion = OtherFile
	case m.Signature.Result == Partial || m.mostlyFound():
		v.Conclusion = Derived
	case m.Watermark.Result == Confirmed:
		v.Conclusion = Wording
	case m.Credentials.Reason == CredentialsOwn:
		v.Conclusion = IssuedHere
	case m.Credentials.Result == Confirmed:
		v.Conclusion = SignedHere
	case has(Indicated) || m.Registry.Result == Partial: // a file may quote an answer, and an answer may quote what the file does
		v.Conclusion = Hint
	case m.Label.Result == Confirmed:
		v.Conclusion = LabelledHere
	case m.Label.Result == Foreign || m.Signature.Result == Foreign || m.Credentials.Result == Foreign:
		v.Conclusion = LabelledAway
	case m.Registry.Result == CannotSay && m.Watermark.Result == CannotSay:
		v.Conclusion = TooLittle
	default:
		v.Conclusion = NothingFound
	}
	v.Limits = v.limits()
	v.lead("signature", m.Signature)
	v.lead("registry", m.Registry)
	v.lead("credentials", m.Credentials)
	v.lead("label", m.Label)
}

// mostly is the part of a text that an answer must have for the text to come from it, and for other marks to be held against it.
const mostly = 0.5

// mostlyFound reports whether an answer has most of the text.
func (m Marks) mostlyFound() bool {
	return m.Registry.Result == Confirmed || m.Registry.Result == Partial && *m.Registry.Share >= mostly
}

// contradictions holds the marks against each other.
func (v *Verdict) contradictions() []Contradiction {
	out := []Contradiction{}
	m := v.Marks
	found := m.mostlyFound()
	if m.Label.Reason == LabelUnproven && (found || m.Signature.Result == Confirmed || m.Signature.Result == Partial) {
		out = append(out, AlteredLabel)
	}
	if m.Signature.Reason == SignatureCut {
		out = append(out, AlteredSignature)
	}
	// A text that was edited no longer has its signature: that contradicts nothing unless the text comes from another answer.
	if m.Signature.Reason == SignatureText && found && !v.leadsTo(m.Signature.Requests) {
		out = append(out, BorrowedSign)
	}
	if m.Credentials.Reason == CredentialsOwn && found && !v.leadsTo(m.Credentials.Requests) {
		out = append(out, BorrowedCreds)
	}
	if m.Label.Result != Confirmed {
		return out
	}
	if named := m.Signature.Requests; len(named) > 0 && !slices.Equal(named, m.Label.Requests) {
		return append(out, TwoRequests)
	}
	if found && !v.leadsTo(m.Label.Requests) {
		out = append(out, BorrowedLabel)
	}
	return out
}

// leadsTo reports whether an answer to one of the requests has any part of the text, or so many answers have that it is not told whether.
func (v *Verdict) leadsTo(requests []string) bool {
	r := v.Marks.Registry
	return r.untold || slices.ContainsFunc(r.related, func(id string) bool { return slices.Contains(requests, id) })
}

// lead adds the requests of a mark that fits the text.
func (v *Verdict) lead(kind string, m Mark) {
	if m.Result == Refuted {
		return
	}
	for _, id := range m.Requests {
		if i := slices.IndexFunc(v.Requests, func(r Request) bool { return r.ID == id }); i >= 0 {
			v.Requests[i].By = append(v.Requests[i].By, kind)
			continue
		}
		if len(v.Requests) == maxRequests {
			v.MoreRequests = true
			continue
		}
		v.Requests = append(v.Requests, Request{ID: id, By: []string{kind}, Records: []string{}})
	}
}
