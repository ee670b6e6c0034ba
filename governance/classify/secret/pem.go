package secret

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// pem finds private keys from their begin mark to their end mark; without an end mark everything that follows belongs to it.
func pem(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k, v := w.Literal(i, "-----begin ")
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	label, v := w.While(k, 40, func(r rune) bool { return text.IsAlnum(r) || r == ' ' })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	name := strings.TrimSuffix(strings.ToUpper(w.ASCII(k, label)), " BLOCK") // as PGP has it
	if !strings.HasSuffix(name, "PRIVATE KEY") {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.Secret, Start: i, Form: 1, Block: true}
	end, last, v := w.pemPiece(i + 5)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	m.End = end
	if !last {
		m.More = &finding.Run{Kind: finding.Secret}
	}
	return m, text.Yes
}

// pemPiece looks for the end mark from i on.
func (w *Detector) pemPiece(i int) (end int, last bool, v text.Verdict) {
	for k := i; k < i+maxPEM; k++ {
		switch w.At(k) {
		case text.Unknown:
			return 0, false, text.Open
		case text.Edge:
			return k, true, text.Yes
		case '-':
			mark, v := w.Literal(k, "-----end ")
			if v == text.Open {
				return 0, false, text.Open
			}
			if v == text.No {
				continue
			}
			if end, v = w.While(mark, 40, func(r rune) bool { return text.IsAlnum(r) || r == ' ' }); v == text.Yes {
				end, v = w.While(end, 5, func(r rune) bool { return r == '-' })
			}
			return end, true, v
		}
	}
	return i + maxPEM, false, text.Yes
}

// Piece returns the end of the next piece of an over-long value that goes on at i, and whether it is the last one.
func (w *Detector) Piece(i int, r *finding.Run) (end int, last bool, v text.Verdict) {
	if r.In == nil {
		return w.pemPiece(i)
	}
	end, v = w.While(i, maxSecret, r.In)
	return end, end-i < maxSecret, v
}
