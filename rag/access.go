package rag

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag/parse"
)

// Allow lets in who meets all that it names; one of the values of a field is enough. It names something in at least one field.
type Allow struct {
	Principals []string `json:"principals,omitempty"` // such as user:ID, key:ID, service:ID
	Roles      []string `json:"roles,omitempty"`
	Labels     []string `json:"labels,omitempty"`   // access labels are the groups of the platform
	Purposes   []string `json:"purposes,omitempty"` // that a policy has taken
}

// PartRule restricts a part of a document: a section with all below it, or single passages of one version. Whoever may not see the document does
// not see the part either.
type PartRule struct {
	// Section is the id of a section, see [Access]. In what is asked for it may also be the headings above a passage, joined by " > ",
	// as the document has them.
	Section string `json:"section,omitempty"`
	// Version and Chunks name passages. Others that share text with one of them, as neighbours do, are restricted like it.
	Version string  `json:"version,omitempty"`
	Chunks  []int   `json:"chunks,omitempty"`
	Allow   []Allow `json:"allow"` // one of these; empty: nobody
}

// Rule says who may see a document, beside its labels. The zero value restricts nothing.
type Rule struct {
	Restricted bool       `json:"restricted,omitempty"` // only those whom Allow lets in: nobody if it is empty
	Allow      []Allow    `json:"allow,omitempty"`
	Parts      []PartRule `json:"parts,omitempty"`
}

func (r Rule) none() bool { return !r.Restricted && len(r.Allow) == 0 && len(r.Parts) == 0 }

// Access is who may see a document.
type Access struct {
	Labels   []string // one of these is needed; empty: every principal that sees the collection
	Rule     Rule
	Revision int64 // of the document; grows with every change of it
	// Sections are what a part of the rule can name: those of versions that have not ended, of the last one, and of those whose passages the rule names.
	// Versions that memory does not have yet are missing. Changes do not read them.
	Sections []Section
}

// AccessChange is a change of who may see a document, for its record: keyed digests, which tell nothing of the rules themselves.
type AccessChange struct {
	Document, Before, After string
	Revision                int64            // after it
	now                     *indexedDocument // as the change left it; nil where it came with a version
}

// viewer is who asks, and what for.
type viewer struct {
	labels, principals, roles []string
	purpose                   string
}

// meets reports whether one of several values that are wanted is there; none is wanted by nobody.
func meets(want, have []string) bool {
	return len(want) == 0 || slices.ContainsFunc(want, func(w string) bool { return w != "" && slices.Contains(have, w) })
}

func (a Allow) lets(v viewer) bool {
	return a.count() > 0 && meets(a.Principals, v.principals) && meets(a.Roles, v.roles) && meets(a.Labels, v.labels) && meets(a.Purposes, []string{v.purpose})
}

func (a Allow) count() int {
	return len(a.Principals) + len(a.Roles) + len(a.Labels) + len(a.Purposes)
}

// oneLets reports whether one of several lets the viewer in.
func oneLets(all []Allow, v viewer) bool {
	return slices.ContainsFunc(all, func(a Allow) bool { return a.lets(v) })
}

// The bounds of a rule.
const (
	maxAllows   = 64
	maxParts    = 64
	maxValues   = 64
	maxPassages = 1000 // of a part
)

// cleanRule returns the rule in its canonical form, in which equal rules are equal texts.
func cleanRule(r Rule) (Rule, error) {
	out := Rule{Restricted: r.Restricted}
	if !r.Restricted && len(r.Allow) > 0 {
		return Rule{}, invalidRule(fault.Say("rag.rule_open"))
	}
	var err error
	if out.Allow, err = cleanAllows(r.Allow); err != nil {
		return Rule{}, err
	}
	if len(r.Parts) > maxParts {
		return Rule{}, invalidRule(fault.Say("value.item_count", maxParts))
	}
	for _, p := range r.Parts {
		if (p.Section == "") == (p.Version == "") || (p.Version == "") != (len(p.Chunks) == 0) || len(p.Chunks) > maxPassages {
			return Rule{}, invalidRule(fault.Say("rag.rule_part"))
		}
		part := PartRule{Section: p.Section, Version: p.Version}
		if part.Allow, err = cleanAllows(p.Allow); err != nil {
			return Rule{}, err
		}
		part.Chunks = append(part.Chunks, p.Chunks...)
		slices.Sort(part.Chunks)
		part.Chunks = slices.Compact(part.Chunks)
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}

func cleanAllows(in []Allow) ([]Allow, error) {
	if len(in) > maxAllows {
		return nil, invalidRule(fault.Say("value.item_count", maxAllows))
	}
	var out []Allow
	for _, a := range in {
		if a.count() == 0 {
			return nil, invalidRule(fault.Say("rag.rule_allow"))
		}
		for _, f := range []*[]string{&a.Principals, &a.Roles, &a.Labels, &a.Purposes} {
			values := slices.Clone(*f)
			slices.Sort(values)
			*f = slices.Compact(values)
			if len(*f) > maxValues || slices.ContainsFunc(*f, func(s string) bool { return !validName(s, 128, unicode.IsPrint) }) {
				return nil, invalidRule(fault.Say("rag.rule_value", maxValues))
			}
		}
		if slices.ContainsFunc(a.Principals, func(p string) bool { return !principal(p) }) {
			return nil, invalidRule(fault.Say("rag.rule_principal"))
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Allow) int { return strings.Compare(fmt.Sprintf("%q", a), fmt.Sprintf("%q", b)) })
	return out, nil
}

// principal reports whether s names somebody by kind and id.
func principal(s string) bool {
	kind, id, ok := strings.Cut(s, ":")
	return ok && id != "" && slices.Contains([]string{"user", "key", "service"}, kind)
}

func invalidRule(why fault.Phrase) error {
	return fault.New(fault.CodeInvalidValue, "access", why).WithParam("access")
}

// ruleKeeper writes and reads the stored form of rules. A keyed digest over document, labels and rule finds out who edits a rule that is there, or the labels
// beside it, in the tables, or gives it to another document. It does not find out who takes a rule away altogether, widens labels of a document without
// one, or puts back a rule that the document once had: it does not know which is the last.
type ruleKeeper struct{ ring *keyring.Ring }

const ruleDigest = 32 // hex digits

func (k ruleKeeper) mac(document, labels, rule string) string {
	return hex.EncodeToString(k.ring.MAC("rag/rule/v1", document, labels, rule))[:ruleDigest]
}

// encode returns the stored form of a rule in canonical form, beside labels as they are stored, "" for one that restricts nothing.
func (k ruleKeeper) encode(document, labels string, r Rule) (string, error) {
	if r.none() {
		return "", nil
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode rule: %w", err)
	}
	return k.mac(document, labels, string(raw)) + string(raw), nil
}

// decode fails on everything but what encode has written for that document and its labels.
func (k ruleKeeper) decode(document, labels, stored string) (Rule, error) {
	if stored == "" {
		return Rule{}, nil
	}
	if len(stored) <= ruleDigest || !hmac.Equal([]byte(stored[:ruleDigest]), []byte(k.mac(document, labels, stored[ruleDigest:]))) {
		return Rule{}, errors.New("the access rule is damaged")
	}
	d := json.NewDecoder(strings.NewReader(stored[ruleDigest:]))
	d.DisallowUnknownFields()
	var out Rule
	if err := d.Decode(&out); err != nil || out.none() {
		return Rule{}, errors.New("the access rule is damaged") // the error of the decoder might quote it
	}
	return out, nil
}

// digest names who may see a document without telling it.
func (k ruleKeeper) digest(document, labels, rule string) string {
	return hex.EncodeToString(k.ring.MAC("rag/access/v1", document, labels, rule)[:16])
}

// section is the id of a section of a document: headings are text of the document, which neither tables nor lists may tell.
func (k ruleKeeper) section(document, headings string) string {
	return sectionPrefix + hex.EncodeToString(k.ring.MAC("rag/section/v1", document, headings)[:12])
}

const (
	sectionPrefix = "sec_"
	headingJoint  = " > " // between headings, as package chunk joins them
)

// sections returns the ids of a passage's section and of all above it, the nearest first.
func (k ruleKeeper) sections(document, headings string) []string {
	var out []string
	for headings != "" {
		out = append(out, k.section(document, headings))
		i := strings.LastIndex(headings, headingJoint)
		headings = headings[:max(0, i)]
	}
	return out
}

// has reports whether a version has passages in a section.
func (k ruleKeeper) has(document string, v *indexedVersion, section string) bool {
	last := ""
	for i := range v.chunks {
		if h := v.chunks[i].Section; i == 0 || h != last {
			if last = h; slices.Contains(k.sections(document, h), section) {
				return true
			}
		}
	}
	return false
}

// resolve turns headings into ids, and refuses parts that none of the versions has, and that the rule of before does not have either: a rule that restricts
// nothing would be taken for one that does.
func (k ruleKeeper) resolve(document string, r, was Rule, versions []*indexedVersion) (Rule, error) {
	out := r
	out.Parts = nil
	for _, p := range r.Parts {
		if p.Section != "" {
			if p.Section = strings.TrimSpace(p.Section); !strings.HasPrefix(p.Section, sectionPrefix) {
				p.Section = k.section(document, p.Section)
			}
		}
		known := slices.ContainsFunc(versions, func(v *indexedVersion) bool { return k.partOf(document, p, v) }) || slices.ContainsFunc(was.Parts, p.same)
		if !known {
			return Rule{}, invalidRule(fault.Say("rag.rule_unknown_part"))
		}
		out.Parts = append(out.Parts, p)
	}
	sortParts(out.Parts)
	return out, nil
}

func sortParts(parts []PartRule) {
	slices.SortStableFunc(parts, func(a, b PartRule) int { return strings.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)) })
}

// same reports whether both restrict the same part, to whomever.
func (p PartRule) same(o PartRule) bool {
	return p.Section == o.Section && p.Version == o.Version && slices.Equal(p.Chunks, o.Chunks)
}

// moved reports whether a new version may have text outside of a restricted section that was inside: the same file is read otherwise than before, as by
// another release, or where headings are found by how they look. last is the version before, nil if it cannot be read.
func (k ruleKeeper) moved(document string, r Rule, earlier []*indexedVersion, last, of *indexedVersion) bool {
	var same *indexedVersion // the last one of the same file
	for _, v := range earlier {
		if v.Digest == of.Digest && v.MIME == of.MIME {
			same = v
		}
	}
	for _, p := range r.Parts {
		switch {
		case p.Section == "" || last != nil && !k.has(document, last, p.Section) && !k.has(document, of, p.Section):
		case same != nil:
			if k.covered(document, p, same) != k.covered(document, p, of) {
				return true
			}
		case last == nil || parse.GuessesHeadings(last.MIME) || parse.GuessesHeadings(of.MIME):
			return true
		}
	}
	return false
}

// covered is a digest of the words of a section, whatever its passages are.
func (k ruleKeeper) covered(document string, p PartRule, v *indexedVersion) [sha256.Size]byte {
	words, at := sha256.New(), 0
	for i := range v.chunks {
		c := &v.chunks[i]
		if from := max(at, c.Start); from < c.End && slices.Contains(k.sections(document, c.Section), p.Section) {
			for _, w := range strings.Fields(v.Content[from:c.End]) {
				words.Write([]byte(w + " "))
			}
			at = c.End
		}
	}
	return [sha256.Size]byte(words.Sum(nil))
}

// partOf reports whether a version has a part, which is resolved.
func (k ruleKeeper) partOf(document string, p PartRule, v *indexedVersion) bool {
	if p.Section != "" {
		return k.has(document, v, p.Section)
	}
	return versionName(v.Version) == p.Version && p.Chunks[0] >= 0 && p.Chunks[len(p.Chunks)-1] < len(v.chunks)
}

// carry returns a rule that comes with a new version, together with the parts of the rule of before that only earlier versions have: they can be read with
// a time, and nobody has spoken of opening them. A part of which the new rule says itself to whom it is open is replaced.
func (k ruleKeeper) carry(document string, r, was Rule, of *indexedVersion) (Rule, error) {
	for _, p := range was.Parts {
		if k.partOf(document, p, of) {
			continue
		}
		given := map[int]bool{}
		for _, n := range r.Parts {
			for _, c := range n.Chunks {
				given[c] = given[c] || n.Version == p.Version
			}
		}
		replaced := p.Section == "" && !slices.ContainsFunc(p.Chunks, func(c int) bool { return !given[c] }) ||
			p.Section != "" && slices.ContainsFunc(r.Parts, p.same)
		if !replaced {
			r.Parts = append(r.Parts, p)
		}
	}
	if len(r.Parts) > maxParts {
		return Rule{}, invalidRule(fault.Say("value.item_count", maxParts))
	}
	sortParts(r.Parts)
	return r, nil
}
