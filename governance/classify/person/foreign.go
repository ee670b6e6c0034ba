package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const (
	maxPart  = 8 // characters of one part of a transcribed name
	maxParts = 4
)

// dotted finds names whose parts are joined by middle dots: 阿依古丽·买买提.
func (n *namer) dotted(first rank) (finding.Candidate, bool) {
	free := !text.IsHan(n.w.At(n.start - 1))
	end, total := n.part(n.start, free)
	if n.open || total == 0 {
		return finding.Candidate{}, false
	}
	dot, parts := n.dot(end), 1
	for parts < maxParts && dot > 0 {
		last, size := n.lastPart(dot + 1)
		if n.open || size == 0 {
			break
		}
		end, total = last, total+size
		parts++
		dot = n.dot(end)
	}
	if n.open || parts < 2 {
		return finding.Candidate{}, false
	}
	left, sure := n.preceding(), n.transcribed(n.start, end)
	if first&mayTranscribe == 0 && !left.cued() && sure < total || sure*3 < total*2 && !left.cued() || sure*2 < total {
		return finding.Candidate{}, false
	}
	m := finding.Candidate{Kind: finding.Person, Start: n.start, End: end, Form: 0.4, Evidence: left.why}
	if sure == total {
		m.Evidence |= finding.Typical
	} else {
		m.Form += 0.1
	}
	return m, true
}

// dot returns where the middle dot stands that joins the next part, behind at most one blank of a scanner's, or 0.
func (n *namer) dot(k int) int {
	if r := n.cell(k); text.IsBlank(r) {
		k++
	}
	if n.cell(k) != '·' {
		return 0
	}
	return k
}

// part reads the part at k: characters of transcriptions, or any if free.
func (n *namer) part(k int, free bool) (end, size int) {
	for size <= maxPart {
		r := n.cell(k)
		if n.open {
			return k, 0
		}
		if !text.IsHan(r) || !free && n.t.first(r)&inTranscript == 0 {
			if n.broken(k, size) {
				k++
				continue
			}
			return k, size
		}
		k++
		size++
	}
	return k, 0
}

// lastPart reads the part at k, which ends where a cue begins.
func (n *namer) lastPart(k int) (end, size int) {
	for size < maxPart {
		r := n.cell(k)
		if n.brokenLast(k, size) {
			k++
			continue
		}
		if n.open || !text.IsHan(r) {
			break
		}
		if size >= 2 {
			length, c := n.t.behind(n, k)
			if n.open || c&(isTitle|isNext|isRelation) != 0 && (length >= 2 || n.t.first(r)&inTranscript == 0) {
				break
			}
			if n.t.first(r)&inTranscript == 0 {
				break
			}
		}
		k++
		size++
	}
	return k, size
}

// broken reports whether a scanner's blank stands at k, behind the first characters of a part that goes on. A word before the blank (法国 皮埃尔·杜邦)
// stands for itself, and so does a long part behind two characters.
func (n *namer) broken(k, size int) bool {
	if size != 1 && size != 2 || !text.IsBlank(n.w.At(k)) {
		return false
	}
	rest := 0
	for rest < 3 && n.t.first(n.cell(k+1+rest))&inTranscript != 0 {
		rest++
	}
	if rest == 0 || size == 2 && rest > 2 {
		return false
	}
	for at := k - 2; at >= k-4 && text.IsHan(n.w.At(at)); at-- {
		if n.wordAt(at) == k-at {
			return false
		}
	}
	return true
}

// brokenLast is broken for a part behind a dot, behind which another name (买买提·艾力 阿依古丽·买买提) or a word may stand.
func (n *namer) brokenLast(k, size int) bool {
	if !n.broken(k, size) || n.wordAt(k+1) >= 2 {
		return false
	}
	end := k + 1
	for end <= k+maxPart && n.t.first(n.cell(end))&inTranscript != 0 {
		end++
	}
	return n.dot(end) == 0
}

func (n *namer) transcribed(k, end int) (count int) {
	for ; k < end; k++ {
		if n.t.first(n.w.At(k))&inTranscript != 0 {
			count++
		}
	}
	return count
}

// foreign finds names without a known surname behind a label: the whole run of characters up to a mark.
func (n *namer) foreign() (finding.Candidate, bool) {
	left := n.preceding()
	if !left.why.Any(finding.LabelBefore | finding.Titled) {
		return finding.Candidate{}, false
	}
	size := 0
	for size < maxPart && text.IsHan(n.cell(n.start+size)) {
		size++
	}
	if n.open || size < 2 {
		return finding.Candidate{}, false
	}
	sure := n.transcribed(n.start, n.start+size)
	m := finding.Candidate{Kind: finding.Person, Start: n.start, End: n.start + size, Evidence: left.why}
	if sure < size || size < 3 {
		if !left.strong || !left.delimited || size > 4 || text.IsHan(n.cell(n.start+size)) {
			return n.transcript(m, size)
		}
		for k := range size {
			if x := n.wordAt(n.start + k); x >= 2 {
				m.Evidence |= finding.Ordinary
				break
			}
			if _, c := n.t.behind(n, n.start+k); c&(isPlace|isTitle) != 0 || n.open {
				return finding.Candidate{}, false
			}
		}
		m.Form = 0.05
		if !text.IsHan(n.cell(n.start + size)) {
			m.Evidence |= finding.Bounded
		}
		return m, true
	}
	var r [6]rune
	for k := range min(size, len(r)) {
		r[k] = n.w.At(n.start + k)
	}
	place, _, _ := lexicon.Division(r[:min(size, len(r))])
	if n.terms(); n.fixed >= 2 || place >= 2 || n.wordAt(n.start) >= 2 || n.open {
		return finding.Candidate{}, false
	}
	m.Form, m.Evidence = 0.15, m.Evidence|finding.Typical
	return m, true
}

// transcript takes the transcription at the beginning of a longer run.
func (n *namer) transcript(m finding.Candidate, size int) (finding.Candidate, bool) {
	length := 0
	for length < size && n.t.first(n.w.At(n.start+length))&inTranscript != 0 {
		if length >= 2 {
			if x, c := n.t.behind(n, n.start+length); n.open || x >= 2 && c&(isTitle|isNext|isRelation) != 0 {
				break
			}
		}
		length++
	}
	if n.open || length < 3 || n.crossed() {
		return finding.Candidate{}, false
	}
	if x := n.wordAt(n.start); x >= 2 {
		return finding.Candidate{}, false
	}
	m.End, m.Form, m.Evidence = n.start+length, 0.1, m.Evidence|finding.Typical
	right := n.following(m.End)
	if n.open || right.quality < 2 || right.place {
		return finding.Candidate{}, false
	}
	return m, true
}
