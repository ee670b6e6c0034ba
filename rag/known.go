package rag

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// The bounds of a value, in characters.
const (
	minKnown = 2
	maxKnown = 128
)

// encodeKnown is how a document's values are stored. It checks their number and their lengths; classes are the rules' to check.
func encodeKnown(known []Known) (string, error) {
	if len(known) == 0 {
		return "", nil
	}
	invalid := func(why fault.Phrase) error {
		return fault.New(fault.CodeInvalidValue, "known", why).WithParam("known")
	}
	if len(known) > MaxKnown {
		return "", invalid(fault.Say("value.item_count", MaxKnown))
	}
	for _, k := range known {
		if n := utf8.RuneCountInString(k.Value); n < minKnown || n > maxKnown || !utf8.ValidString(k.Value) || k.Class == "" {
			return "", invalid(fault.Say("rag.known_item", minKnown, maxKnown))
		}
	}
	b, err := json.Marshal(known)
	return string(b), err
}

// decodeKnown reads the stored form.
func decodeKnown(stored string) ([]Known, error) {
	if stored == "" {
		return nil, nil
	}
	var out []Known
	if json.Unmarshal([]byte(stored), &out) != nil { // the error might quote a value
		return nil, errors.New("the values that a document names are no JSON")
	}
	return out, nil
}
