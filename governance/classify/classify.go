// Package classify is a leaf: what is sensitive in this text. Detectors turn text into findings: a class and the byte range of
// the original text, never the value.
//
// The root scans: it reads the text into a window (package text), asks the detectors that a character may concern (number, online, secret, person,
// company, address), and unites what they find. What they share, from the candidate over its evidence to the verdict, is package finding.
//
// Detection runs on normalised text with hand-written scanners instead of patterns: neighbours are checked in
// code, because a word boundary of the regexp package knows ASCII only and phone numbers stand next to Han. All work is linear in
// the text.
//
// There is one algorithm for whole texts and for streams: a [Scanner] that is fed pieces and gives back segments. Every detector is
// prefix-stable: on a prefix of a text it says yes, no, or open (more text could change the answer), and a yes or no never
// changes when text is added. So the result depends on the text alone and not on how it was cut; [Set.Find] is a Scanner fed once.
package classify

import (
	"slices"
	"strconv"
	"sync"

	"github.com/sluice-project/sluice/governance/classify/finding"
)

// version numbers the rules of all detectors. It is raised whenever one of them may find something else than before: records name it, so
// that what was found can be told from what would be found today.
const version = 5

// Detector names what looks for a class, with the version of its rules, as records do.
func Detector(c Class) string { return string(c) + "@" + strconv.Itoa(version) }

// Version names the rules of all detectors.
func Version() string { return strconv.Itoa(version) }

// Finding says that the bytes [Start, End) of a text hold a value of Class. Score in (0, 1] says how sure the detector is; where
// findings overlapped, the range is their union and the class is that of the highest score.
type Finding struct {
	Class      Class
	Start, End int
	Score      float64
	Why        Why
}

// Why says why something was found. It is small and holds nothing of the text.
type Why = finding.Why

// Reason is a piece of evidence: how it is called, and what it weighs for a finding or, below zero, against it.
type Reason = finding.Reason

// Reasons returns all reasons that there may be.
func Reasons() []Reason { return finding.Reasons() }

// Set is an immutable choice of detectors, safe for concurrent use.
type Set struct {
	on      finding.Kinds
	inner   bool // inside base64, which is not looked into again
	custom  []*defined
	spare   *sync.Pool      // of scanners
	known   *words          // nil: nothing
	insists bool            // known values are found though their classes are not looked for
	allowed map[string]bool // canonical values that are left alone
}

// New returns a set that looks for the given classes, for all but the optional ones if none is given. Unknown classes are ignored.
func New(classes ...Class) *Set {
	s := &Set{spare: &sync.Pool{New: func() any { return newScanner() }}}
	for n, t := range types {
		if len(classes) == 0 && !t.Optional || slices.Contains(classes, t.Class) {
			s.on |= 1 << n
		}
	}
	return s
}

// Only returns the subset of s for which keep holds.
func (s *Set) Only(keep func(Class) bool) *Set {
	out := *s
	out.on, out.custom = 0, nil
	for n, t := range types {
		if s.on.Has(finding.Kind(n)) && keep(t.Class) {
			out.on |= 1 << n
		}
	}
	for _, d := range s.custom { // numbers of kinds stay
		kept := *d
		kept.off = d.off || !keep(d.Class)
		out.custom = append(out.custom, &kept)
	}
	return &out
}

// Empty reports whether the set looks for nothing.
func (s *Set) Empty() bool {
	return s.on == 0 && (s.known == nil || s.known.nodes == 0 || !s.insists) && !slices.ContainsFunc(s.custom, func(d *defined) bool { return !d.off })
}

// Find returns the findings of a text: ordered, apart from each other, inside the text, on rune boundaries.
func (s *Set) Find(text string) []Finding {
	var out []Finding
	s.each(text, true, func(seg Segment) {
		if seg.Class != "" {
			if out == nil {
				out = make([]Finding, 0, 4)
			}
			out = append(out, Finding{Class: seg.Class, Start: seg.Start, End: seg.Start + len(seg.Text), Score: seg.Score, Why: seg.Why})
		}
	})
	return out
}

// Each gives the segments of a text to fn, in order; together they are the text.
func (s *Set) Each(text string, fn func(Segment)) { s.each(text, false, fn) }

// each is Each; with bare set, segments have no canonical values.
func (s *Set) each(text string, bare bool, fn func(Segment)) {
	if s.Empty() {
		if text != "" {
			fn(Segment{Text: text})
		}
		return
	}
	sc := s.Scanner()
	sc.bare = bare
	out := sc.out[:0]
	for len(text) > 0 {
		n := min(maxPiece, len(text))
		out = sc.advance(out[:0], text[:n], n == len(text))
		for _, seg := range out {
			fn(seg)
		}
		text = text[n:]
	}
	sc.out = out
	sc.Done()
}
