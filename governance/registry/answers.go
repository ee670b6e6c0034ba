package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
)

const (
	// maxPrints bounds the fingerprints of one call: those of some two million characters.
	maxPrints = 160_000
	// maxChoice is the largest number of an alternative.
	maxChoice = 1 << 16

	marksVersion = 1
)

var errMarks = errors.New("the fingerprints of an answer do not read: the write-ahead log was changed, or is of a newer release")

// Answers takes in the alternatives of an answer as they leave. It belongs to one goroutine.
type Answers struct {
	key   *fingerprint.Key
	least int // letters and numerals of a text that is kept
	parts []part
}

// part is a text of an alternative.
type part struct {
	choice, order int // texts in order: what is said, how it was thought, why it was refused, calls
	*fingerprint.Printer
}

const (
	inText = iota
	inReasoning
	inRefusal
	inCalls
)

// NewAnswers returns what takes in an answer under the key of its tenant. known is what texts end with whatever was asked, "" for nothing: it does not make
// them long enough to be kept.
func NewAnswers(key *fingerprint.Key, known string) *Answers {
	a := &Answers{key: key, least: fingerprint.Shortest}
	if known != "" {
		p := key.NewPrinter(0)
		_, _ = p.WriteString(known) // it takes everything
		a.least += p.Prints().Characters
	}
	return a
}

// Text takes in a piece of what an alternative says.
func (a *Answers) Text(choice int, s string) { a.write(choice, inText, s) }

// Reasoning takes in a piece of how it was thought.
func (a *Answers) Reasoning(choice int, s string) { a.write(choice, inReasoning, s) }

// Refusal takes in a piece of why it was refused.
func (a *Answers) Refusal(choice int, s string) { a.write(choice, inRefusal, s) }

// Call takes in a piece of the arguments of a call.
func (a *Answers) Call(choice, index int, arguments string) {
	a.write(choice, inCalls+max(index, 0), arguments)
}

func (a *Answers) write(choice, order int, s string) {
	if s == "" {
		return
	}
	i := slices.IndexFunc(a.parts, func(p part) bool { return p.choice == choice && p.order == order })
	if i < 0 {
		i = len(a.parts)
		a.parts = append(a.parts, part{choice, order, a.key.NewPrinter(maxPrints)})
	}
	_, _ = a.parts[i].WriteString(s) // it takes everything
}

// Data returns what is kept of all that was taken in, nil for nothing; see [Service.Keep]. Of texts shorter than [fingerprint.Shortest], without what they end with anyway, nothing is kept. The digest
// of an alternative is that of what it says; if that is nothing, or too short, it has none. Nothing may follow.
func (a *Answers) Data() []byte {
	slices.SortStableFunc(a.parts, func(x, y part) int {
		if x.choice != y.choice {
			return x.choice - y.choice
		}
		return x.order - y.order
	})
	var all []choicePrints
	left := maxPrints
	for _, p := range a.parts {
		got := p.Prints()
		if got.Characters < a.least || p.choice > maxChoice { // so short that it could be guessed: not even its digest is kept
			continue
		}
		got.Selected = got.Selected[:min(len(got.Selected), left)]
		left -= len(got.Selected)
		if last := len(all) - 1; last >= 0 && all[last].choice == p.choice {
			all[last].Characters += got.Characters
			all[last].Selected = append(all[last].Selected, got.Selected...)
			continue
		}
		if p.order != inText { // an answer is what is said: whoever shows how it was thought does not show the answer
			got.Digest = [fingerprint.DigestSize]byte{}
		}
		all = append(all, choicePrints{p.choice, got})
	}
	if len(all) == 0 {
		return nil
	}
	return encodePrints(all)
}

// choicePrints is what is kept of an alternative.
type choicePrints struct {
	choice int
	fingerprint.Prints
}

func encodePrints(all []choicePrints) []byte {
	b := []byte{marksVersion}
	for _, c := range all {
		slices.Sort(c.Selected)
		c.Selected = slices.Compact(c.Selected)
		b = binary.AppendUvarint(b, uint64(c.choice))
		b = append(b, c.Digest[:]...)
		b = binary.AppendUvarint(b, uint64(c.Characters))
		b = binary.AppendUvarint(b, uint64(len(c.Selected)))
		last := uint64(0)
		for _, x := range c.Selected {
			b = binary.AppendUvarint(b, x-last)
			last = x
		}
	}
	return b
}

// decodePrints reads what encodePrints has written, and nothing else.
func decodePrints(b []byte) (all []choicePrints, err error) {
	if len(b) == 0 || b[0] != marksVersion {
		return nil, errMarks
	}
	for r := bytes.NewReader(b[1:]); r.Len() > 0; {
		var c choicePrints
		choice, err := uvarint(r, maxChoice)
		if err != nil {
			return nil, err
		}
		if n, _ := r.Read(c.Digest[:]); n != len(c.Digest) {
			return nil, errMarks
		}
		characters, err := uvarint(r, 1<<40)
		if err != nil {
			return nil, err
		}
		n, err := uvarint(r, maxPrints)
		if err != nil {
			return nil, err
		}
		c.choice, c.Characters, c.Selected = int(choice), int(characters), make([]uint64, n)
		last := uint64(0)
		for i := range c.Selected {
			d, err := uvarint(r, 1<<fingerprint.Bits-1-last)
			if err != nil {
				return nil, err
			}
			last += d
			c.Selected[i] = last
		}
		all = append(all, c)
	}
	return all, nil
}

func uvarint(r *bytes.Reader, most uint64) (uint64, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil || n > most {
		return 0, errMarks
	}
	return n, nil
}
