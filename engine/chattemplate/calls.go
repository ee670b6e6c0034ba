package chattemplate

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

var (
	// nineCharacters finds Mistral's templates, which raise an exception on IDs of another length.
	nineCharacters = regexp.MustCompile(`id['"]?\]?\s*\|\s*length\s*!=\s*9`)
	nineID         = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)
)

// callID returns what a template sees of the ID of a call: a digest of one that it would refuse, so that calls and results still agree.
func (t *Template) callID(id string) string {
	if !t.shortIDs || nineID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}

// styleOf returns how the template takes the calls of a chat; it does not matter if there are none.
func (t *Template) styleOf(in Input) callStyle {
	if in.hasCalls() {
		return t.style()
	}
	return callStyle{}
}

// probeStyle renders a chat with a call in each style, and takes the first in which the call is in the prompt with its arguments. A
// template that adds texts wants them as text, for instance, and one that looks for turns without content wants none.
func (t *Template) probeStyle() callStyle {
	const function, key = "probed_function", "probed_argument"
	call := ToolCall{ID: "probe0000", Name: function, Arguments: `{"` + key + `": "x"}`}
	in := Input{
		Messages: []Message{{Role: "user", Content: "x"}, {Role: "assistant", ToolCalls: []ToolCall{call}}},
		Tools:    []Tool{{Name: function, Description: "x", Parameters: []byte(`{"type": "object", "properties": {}}`)}},
	}
	for _, style := range []callStyle{{}, {nullContent: true}, {textArguments: true}, {textArguments: true, nullContent: true}} {
		text, err := t.renderStyle(in, style, same, "")
		if err == nil && strings.Contains(text, function) && strings.Contains(text, key) {
			return style
		}
	}
	return callStyle{}
}
