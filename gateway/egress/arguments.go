package egress

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/jsontext"
)

// errArguments is a call whose arguments are no JSON object.
var errArguments = errors.New("the engine sent arguments of a call that are no JSON object")

// arguments lets the arguments of one call out. It reads the JSON as it comes: every string, keys too, passes a release of its own
// and is escaped again, so that what is put back can neither end a string nor be seen half; everything else leaves as it is, but for
// a long number that the rules hide, which becomes a string. The rules see a value behind its name. The result is the same however
// the text was cut.
type arguments struct {
	open func() Release

	state   argState
	nested  []byte // '{' and '[' that are open
	release Release
	escape  []byte // of an escape that is not complete
	plain   []byte // decoded, not yet given to the release
	word    []byte // of a number, true, false or null
	isKey   bool
	key     []byte   // the nearest name, decoded
	keys    [][]byte // the names outside
	unseen  string   // what the release was given before the value and has not let out yet
	out     []byte
	kept    []byte // the same before values were put back
	masked  string // of what was returned last, before values were put back
}

// maxNested is how deep JSON may be nested; what is deeper is no answer to anything.
const maxNested = 1000

// argState is what may come next.
type argState uint8

const (
	argObject     argState = iota // the opening brace
	argFirstKey                   // a key or a closing brace
	argKey                        // a key
	argColon                      // a colon
	argFirstValue                 // a value or a closing bracket
	argValue                      // a value
	argNext                       // a comma or what closes
	argString                     // the rest of a string
	argWord                       // the rest of a number or a word
	argDone                       // nothing but space
)

// write takes a piece and returns what may leave now.
func (a *arguments) write(s string) (string, error) {
	for i := 0; i < len(s); i++ {
		if err := a.step(s[i]); err != nil {
			return "", err
		}
	}
	if a.state == argString {
		if err := a.flush(false); err != nil {
			return "", err
		}
	}
	return a.take(), nil
}

// close returns the rest. Arguments that were cut off leave as far as they go; otherwise they must be complete, and none at all are
// an empty object.
func (a *arguments) close(cut bool) (string, error) {
	switch {
	case a.state == argDone:
	case a.state == argObject && !cut:
		a.put([]byte("{}")...)
	case !cut:
		return "", errArguments
	case a.state == argString:
		if err := a.flush(true); err != nil {
			return "", err
		}
		rest, err := a.release.Close("")
		if err != nil {
			return "", err
		}
		if err := a.show(rest); err != nil {
			return "", err
		}
	case a.state == argWord:
		if err := a.endWord(); err != nil && !errors.Is(err, errArguments) {
			return "", err
		}
	}
	return a.take(), nil
}

func (a *arguments) take() string {
	out := string(a.out)
	a.masked = string(a.kept)
	a.out, a.kept = a.out[:0], a.kept[:0]
	return out
}

// put lets bytes out that no release has to see.
func (a *arguments) put(b ...byte) {
	a.out, a.kept = append(a.out, b...), append(a.kept, b...)
}

func (a *arguments) step(c byte) error {
	switch a.state {
	case argString:
		return a.inString(c)
	case argWord:
		if strings.IndexByte(" \t\r\n,]}", c) < 0 {
			a.word = append(a.word, c)
			return nil
		}
		if err := a.endWord(); err != nil {
			return err
		}
	default:
	}
	if strings.IndexByte(" \t\r\n", c) >= 0 {
		a.put(c)
		return nil
	}
	return a.structure(c)
}

// structure takes a byte outside strings and words.
func (a *arguments) structure(c byte) error {
	value := a.state == argValue || a.state == argFirstValue
	if len(a.nested) >= maxNested && (c == '{' || c == '[') {
		return errArguments
	}
	switch {
	case c == '{' && (value || a.state == argObject):
		a.nest(c, argFirstKey)
	case c == '[' && value:
		a.nest(c, argFirstValue)
	case c == '"' && (value || a.state == argKey || a.state == argFirstKey):
		a.put(c)
		return a.openString(!value)
	case c == ':' && a.state == argColon:
		a.state = argValue
	case c == ',' && a.state == argNext:
		a.state = argValue
		if a.within('{') {
			a.state = argKey
		}
	case c == '}' && a.within('{') && (a.state == argNext || a.state == argFirstKey),
		c == ']' && a.within('[') && (a.state == argNext || a.state == argFirstValue):
		n := len(a.nested) - 1
		a.key, a.keys = a.keys[n], a.keys[:n]
		a.nested = a.nested[:n]
		a.after()
	case value && (c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n'):
		a.state, a.word = argWord, append(a.word[:0], c)
		return nil
	default:
		return errArguments
	}
	a.put(c)
	return nil
}

// nest opens an object or a list.
func (a *arguments) nest(c byte, next argState) {
	a.nested, a.keys, a.state = append(a.nested, c), append(a.keys, a.key), next
}

// openString begins a string. The release of a value is given its name first.
func (a *arguments) openString(isKey bool) error {
	a.isKey, a.state, a.release = isKey, argString, a.open()
	if isKey {
		a.key, a.unseen = nil, ""
		return nil
	}
	if a.unseen = jsontext.NameBefore(string(a.key)); a.unseen == "" {
		return nil
	}
	shown, err := WriteName(a.release, a.unseen)
	if err != nil {
		return err
	}
	return a.show(shown)
}

// show lets out what the release has just shown, but for the name before the value.
func (a *arguments) show(shown string) error {
	n, masked := min(len(shown), len(a.unseen)), a.release.Masked()
	if shown[:n] != a.unseen[:n] || !strings.HasPrefix(masked, a.unseen[:n]) {
		return errArguments
	}
	a.unseen = a.unseen[n:]
	a.out, a.kept = jsontext.AppendEscapedString(a.out, shown[n:]), jsontext.AppendEscapedString(a.kept, masked[n:])
	return nil
}

func (a *arguments) within(c byte) bool { return len(a.nested) > 0 && a.nested[len(a.nested)-1] == c }

// after goes on behind a value.
func (a *arguments) after() {
	if a.state = argNext; len(a.nested) == 0 {
		a.state = argDone
	}
}

// endWord lets a complete number or word out.
func (a *arguments) endWord() error {
	a.after()
	if !json.Valid(a.word) {
		return errArguments
	}
	if len(a.word) <= jsontext.MaxPlain {
		a.put(a.word...)
		return nil
	}
	name := jsontext.NameBefore(string(a.key))
	r := a.open()
	shown, err := WriteName(r, name)
	if err != nil {
		return err
	}
	masked := r.Masked()
	rest, restMasked, err := ReleaseWhole(r, string(a.word))
	if err != nil {
		return err
	}
	shown, masked = shown+rest, masked+restMasked
	shown, whole := strings.CutPrefix(shown, name)
	masked, same := strings.CutPrefix(masked, name)
	if !whole || !same {
		return errArguments
	}
	a.out, a.kept = a.appendWord(a.out, shown), a.appendWord(a.kept, masked)
	return nil
}

// appendWord adds a number or word as it is, or what it became as a string.
func (a *arguments) appendWord(to []byte, s string) []byte {
	if s == string(a.word) {
		return append(to, s...)
	}
	return jsontext.AppendString(to, s)
}

// inString takes a byte of a string.
func (a *arguments) inString(c byte) error {
	switch {
	case len(a.escape) > 0 && !a.lone(c):
		a.escape = append(a.escape, c)
		a.decode()
	case c == '\\':
		a.escape = append(a.escape, c)
	case c == '"':
		if err := a.flush(true); err != nil {
			return err
		}
		rest, err := a.release.Close()
		if err != nil {
			return err
		}
		if err := a.show(rest); err != nil {
			return err
		}
		if a.unseen != "" {
			return errArguments
		}
		a.put('"')
		if a.after(); a.isKey {
			a.state = argColon
		}
	default:
		a.plain = append(a.plain, c)
	}
	return nil
}

// lone ends an escape that c cannot go on with: half a pair stands for U+FFFD, the beginning of four digits for itself.
func (a *arguments) lone(c byte) bool {
	e := a.escape
	n := len(e)
	pair := n >= 6
	if n == 6 && c == '\\' || n == 1 || n == 7 || n != 6 && strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 {
		return false
	}
	if pair {
		a.plain = utf8.AppendRune(a.plain, utf8.RuneError)
		e = e[6:]
	}
	a.plain = append(a.plain, e...)
	a.escape = a.escape[:0]
	return true
}

// decode moves a complete escape to the plain text. What is no escape is text: models write "\d" and mean it.
func (a *arguments) decode() {
	for len(a.escape) >= 2 {
		e := a.escape
		if e[1] != 'u' {
			if i := strings.IndexByte(`"\/bfnrt`, e[1]); i >= 0 {
				a.plain = append(a.plain, "\"\\/\b\f\n\r\t"[i])
			} else {
				a.plain = append(a.plain, e[:2]...)
			}
			a.escape = a.escape[:copy(e, e[2:])]
			continue
		}
		first, ok := jsontext.Hex4(e, 0)
		if !ok {
			return
		}
		if !utf16.IsSurrogate(first) {
			a.plain = utf8.AppendRune(a.plain, first)
			a.escape = e[:0]
			return
		}
		second, ok := jsontext.Hex4(e, 6)
		pair := utf8.RuneError
		switch {
		case ok:
			pair = utf16.DecodeRune(first, second)
		case len(e) < 8 || e[7] == 'u' && len(e) < 12:
			return // the other half may follow
		}
		if a.plain = utf8.AppendRune(a.plain, pair); pair != utf8.RuneError {
			a.escape = e[:0]
			return
		}
		a.escape = e[:copy(e, e[6:])] // it stands for itself
	}
}

// flush gives the plain text to the release: all of it at the end of a string, otherwise whole characters.
func (a *arguments) flush(whole bool) error {
	n := len(a.plain)
	if whole {
		a.plain = append(a.plain, half(a.escape)...)
		a.escape = a.escape[:0]
		n = len(a.plain)
	} else {
		for back := 1; back <= min(n, utf8.UTFMax-1); back++ {
			if utf8.RuneStart(a.plain[n-back]) {
				if !utf8.FullRune(a.plain[n-back:]) {
					n -= back
				}
				break
			}
		}
	}
	if n == 0 {
		return nil
	}
	if room := jsontext.MaxName + 1 - len(a.key); a.isKey && room > 0 {
		a.key = append(a.key, a.plain[:min(n, room)]...)
	}
	shown, err := a.release.Write(strings.ToValidUTF8(string(a.plain[:n]), "\uFFFD"))
	if err != nil {
		return err
	}
	a.plain = a.plain[:copy(a.plain, a.plain[n:])]
	return a.show(shown)
}

// half is what an escape that the end cut off stands for.
func half(escape []byte) string {
	if len(escape) >= 6 {
		return string(utf8.RuneError)
	}
	return ""
}
