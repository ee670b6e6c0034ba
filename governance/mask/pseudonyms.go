// Package mask is a leaf over classify: it replaces sensitive values by pseudonyms and puts them back, also in the middle of a
// stream.
//
// A pseudonym reads ⟦手机·K7Q2F⟧: the kind of value and a code of fixed width, so no pseudonym is a prefix of another. The code
// depends on the tenant's key, the session, the class and the value: the same value keeps its pseudonym for the whole
// conversation, and neither two tenants nor two sessions can be linked by it. The [Pseudonyms] that maps codes to values lives in one
// request only; since codes are deterministic, the next turn builds the same ones. Where a policy lets people see values again, its entries
// are stored, encrypted, by package pseudonym; see [Pseudonyms.Fresh].
//
// A pseudonym that a user typed is data, not a reference: [Pseudonyms.Mask] replaces everything that could be read as one by a
// pseudonym of its own, so that restoring gives back exactly what was typed.
package mask

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/keyring"
)

const (
	openMark  = '⟦'
	closeMark = '⟧'
	dot       = '·'
	codeSize  = 5
	alphabet  = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ" // no 0, 1, I, O
)

// Detector names what recognises pseudonyms, with the version of its rules, as records do. It is raised whenever a text may be read
// otherwise than before.
const Detector = "pseudonym@4"

// marker is the class of text that looks like a pseudonym. It is no class of values: policies do not name it.
const marker classify.Class = "marker"

// markerTag is the tag of what looks like a pseudonym.
const markerTag = "标记"

// tagOf returns the short name of a class that its pseudonyms carry.
func tagOf(set *classify.Set, c classify.Class) string {
	if c == marker {
		return markerTag
	}
	if t, ok := set.TypeOf(c); ok {
		return t.Tag
	}
	return "敏感"
}

// tagsOf returns the tags of all classes of a set. None is the beginning of another.
func tagsOf(set *classify.Set) []string {
	out := []string{markerTag}
	for _, t := range set.Types() {
		out = append(out, t.Tag)
	}
	return out
}

// Pseudonyms holds the values of one request and their pseudonyms. It is safe for concurrent use. Nothing in it may be logged, and nothing but
// what Fresh returns stored; it prints as its name.
type Pseudonyms struct {
	tenant  []byte // the tenant's key
	session string

	mu      sync.RWMutex
	key     []byte // of the tenant and the session; nil before the first pseudonym
	byCode  map[string]entry
	byValue map[surface]string // pseudonym
	fresh   []Entry            // since the last Saved
	own     *own               // of byCode; nil: to be made
}

// Entry is a pseudonym and what it stands for. It goes into the store of values, and nowhere else.
type Entry struct {
	Code  string
	Class classify.Class
	Text  keyring.Secret
}

// Fresh returns the pseudonyms given out that nobody has said are stored, in order.
func (v *Pseudonyms) Fresh() []Entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Clone(v.fresh)
}

// Saved says that the first n of Fresh are stored.
func (v *Pseudonyms) Saved(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fresh = v.fresh[n:]
}

type surface struct {
	class classify.Class
	text  string
}

type entry struct {
	tag     string
	text    string // what is put back
	brought bool   // by the answer: it is not put back
}

// NewPseudonyms returns no pseudonyms yet. key is the tenant's pseudonym key.
func NewPseudonyms(key []byte, session string) *Pseudonyms {
	return &Pseudonyms{tenant: key, session: session, byCode: map[string]entry{}, byValue: map[surface]string{}}
}

// derived is the key for a purpose below another.
func derived(key []byte, label string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(label))
	return m.Sum(nil)
}

// String keeps values out of logs.
func (v *Pseudonyms) String() string { return "mask.Pseudonyms" }

// GoString keeps values out of logs.
func (v *Pseudonyms) GoString() string { return v.String() }

// Len returns the number of pseudonyms.
func (v *Pseudonyms) Len() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.byCode)
}

// pseudonym returns the pseudonym of a value spelled as text. Two spellings of one value get two pseudonyms, since each must be put
// back as it was; the canonical spelling's depends on the value alone. brought is set for a value that the answer brings.
func (v *Pseudonyms) pseudonym(class classify.Class, tag, value, text string, brought bool) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p, ok := v.byValue[surface{class, text}]; ok {
		return p
	}
	var code string
	for n := uint64(0); ; n++ { // the next code if this one is taken
		code = v.code(class, value, text, n)
		if _, taken := v.byCode[code]; !taken {
			break
		}
	}
	p := string(openMark) + tag + string(dot) + code + string(closeMark)
	text = strings.Clone(text) // it may be a piece of a long one
	v.byCode[code] = entry{tag: tag, text: text, brought: brought}
	v.fresh = append(v.fresh, Entry{Code: code, Class: class, Text: keyring.Secret(text)})
	v.byValue[surface{class, text}] = p
	if !brought {
		v.own = nil
	}
	return p
}

// codeOf returns the code of a pseudonym.
func codeOf(pseudonym string) string {
	end := len(pseudonym) - len(string(closeMark))
	return pseudonym[end-codeSize : end]
}

func (v *Pseudonyms) code(class classify.Class, value, text string, n uint64) string {
	if text == value {
		text = ""
	}
	if v.key == nil {
		v.key = derived(v.tenant, v.session)
	}
	bits := binary.BigEndian.Uint64(sum(v.key, n, string(class), value, text))
	out := make([]byte, codeSize)
	for i := range out {
		out[i] = alphabet[bits%uint64(len(alphabet))]
		bits /= uint64(len(alphabet))
	}
	return string(out)
}

// hashed returns the keyed digest that stands for a value. All spellings of it have one, in all sessions of the tenant.
func (v *Pseudonyms) hashed(class classify.Class, tag, value string) string {
	return "〔" + tag + "#" + hex.EncodeToString(sum(derived(v.tenant, "\x00hash"), 0, string(class), value)[:6]) + "〕"
}

// sum is the keyed digest of a number and texts; each text goes with its length.
func sum(key []byte, n uint64, parts ...string) []byte {
	text := make([]byte, 0, 256)
	for _, part := range parts {
		text = binary.BigEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	m := hmac.New(sha256.New, key)
	m.Write(binary.BigEndian.AppendUint64(text, n))
	return m.Sum(nil)
}

func (v *Pseudonyms) lookUp(code string) (entry, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e, ok := v.byCode[code]
	return e, ok
}

// own are the pseudonyms that a restorer puts values back for. It is immutable.
type own struct {
	tags  []string            // in order
	codes map[string][]string // by tag, in order; all of them under ""
	heads heads               // of everything that reads as one of them, or as any between the right marks
}

// has reports whether a pseudonym with the tag has a code that begins so. In a nil set any may be.
func (o *own) has(tag, code string) bool {
	if o == nil {
		return true
	}
	codes := o.codes[tag]
	i, _ := slices.BinarySearch(codes, code)
	return i < len(codes) && strings.HasPrefix(codes[i], code)
}

// ownNow returns the pseudonyms given out so far, but for those of what the answer brought.
func (v *Pseudonyms) ownNow() *own {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.own != nil {
		return v.own
	}
	o := &own{codes: map[string][]string{}}
	for code, e := range v.byCode {
		if !e.brought {
			o.codes[e.tag] = append(o.codes[e.tag], code)
		}
	}
	var all []string
	for tag, codes := range o.codes {
		slices.Sort(codes)
		o.tags, all = append(o.tags, tag), append(all, codes...)
	}
	slices.Sort(o.tags)
	slices.Sort(all)
	o.codes[""], o.heads = all, headsOf(nil)
	if len(all) > 0 {
		o.heads = headsOf(o.tags)
		for _, c := range "[【·•・‧⋅" {
			o.heads.add(c)
		}
		for _, tag := range o.tags {
			for _, c := range tag { // what is left of it may begin with any
				o.heads.add(c)
			}
		}
		for _, code := range all {
			o.heads.add(rune(code[0]))
			o.heads.add(unicode.ToLower(rune(code[0])))
		}
	}
	v.own = o
	return o
}
