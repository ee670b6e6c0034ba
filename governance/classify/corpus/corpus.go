package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// Span is a sensitive value: the runes [Start, End) of a text. It is well-formed unless noise damaged it.
type Span struct {
	Start      int    `json:"start"`
	End        int    `json:"end"`
	Type       string `json:"type"`
	WellFormed bool   `json:"wellformed"`
}

// Document is a text and all that is sensitive in it. Generated ones are called set/family/number/noise, with the number of the
// repetition behind it from the second on.
type Document struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Spans []Span `json:"spans"`
}

// Negatives is the family of the hard negatives, Lines that of the lines which were written one by one.
const (
	Negatives = "negatives"
	Lines     = "lines"
)

// Family returns the sector the document is from, or what kind of text it is.
func (d Document) Family() string { return d.segment(1) }

// Noise returns the kind of damage.
func (d Document) Noise() string { return d.segment(3) }

// segment returns a part of the identifier, "other" where documents of one's own are called otherwise.
func (d Document) segment(n int) string {
	parts := strings.Split(d.ID, "/")
	if len(parts) < 4 {
		return "other"
	}
	return parts[n]
}

// Set is what detectors are measured on.
type Set struct {
	Name      string
	Documents []Document
}

// Spans counts the spans of each type.
func (s Set) Spans() map[string]int {
	out := map[string]int{}
	for _, d := range s.Documents {
		for _, sp := range d.Spans {
			out[sp.Type]++
		}
	}
	return out
}

// Write writes the documents as JSON Lines.
func (s Set) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, d := range s.Documents {
		if d.Spans == nil {
			d.Spans = []Span{}
		}
		if err := enc.Encode(d); err != nil {
			return err
		}
	}
	return nil
}

// Digest returns the SHA-256 of what Write writes.
func (s Set) Digest() string {
	h := sha256.New()
	_ = s.Write(h) // a hash takes everything
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// DefaultClasses lists the classes that the default policy masks.
func DefaultClasses() []string {
	return strings.Fields(`cn_resident_id cn_mobile cn_landline bank_card bank_account email ipv4 ipv6 mac_address cn_plate vin cn_uscc
		cn_business_licence cn_passport cn_travel_permit cn_foreign_permit hk_id macau_id tw_id cn_officer_id cn_social_security
		medical_record utility_account court_case wechat qq coordinates imei iccid imsi crypto_address api_secret person address`)
}

// OptionalClasses lists the classes that exist and are off in the default policy.
func OptionalClasses() []string {
	return strings.Fields("ticket_number order_number parcel_number document_number birth_date age company")
}

func allClasses() []string { return slices.Concat(DefaultClasses(), OptionalClasses()) }

// Noises lists the kinds of damage, the first of which is none.
func Noises() []string { return strings.Fields("clean chat ocr fullwidth numerals mixed") }

// fillers are placeholders for what is not sensitive.
func fillers() []string {
	return strings.Fields("date time amount count percent department product hotline order ticket version weekday")
}
