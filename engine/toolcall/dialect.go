package toolcall

import (
	"regexp"
	"strings"
)

// Dialect is how a family of models writes calls.
type Dialect uint8

// The dialects.
const (
	None        Dialect = iota // tools cannot be offered
	Hermes                     // Hermes, Qwen2.5, Qwen3, SmolLM2
	Llama                      // Llama 3.1 and later
	Mistral                    // Mistral 7B v0.3, Nemo, Small 3.1
	MistralArgs                // Mistral Small 3.2, Devstral, Magistral, Ministral 3
)

const (
	hermesOpen   = "<tool_call>"
	hermesClose  = "</tool_call>"
	llamaTag     = "<|python_tag|>"
	mistralCalls = "[TOOL_CALLS]"
	mistralArgs  = "[ARGS]"
	mistralID    = "[CALL_ID]"
)

// toolsVariable is how a template that renders tools mentions them; engine/chattemplate looks for the same.
var toolsVariable = regexp.MustCompile(`\btools\b`)

// Detect returns the dialect that a chat template teaches. A template that does not mention tools counts as Hermes, see above; no
// template at all, or a dialect of its own, is None.
func Detect(templateSource string) Dialect {
	has := func(s string) bool { return strings.Contains(templateSource, s) }
	switch {
	case templateSource == "":
		return None
	case !toolsVariable.MatchString(templateSource):
		return Hermes
	case has(mistralCalls) && has(mistralArgs):
		return MistralArgs
	case has(mistralCalls):
		return Mistral
	case has(hermesOpen) && has("arguments") && !has("<function=") && !has("<arg_key>"):
		return Hermes
	case has("<|start_header_id|>") && has(`"parameters": `) && !has("<function="):
		return Llama
	}
	return None
}

// Markers are the texts that may be control tokens of a model, whose bytes are otherwise not shown: a Parser has to see them, and a
// vocabulary for grammars has to have them.
func (d Dialect) Markers() []string {
	switch d {
	case Hermes:
		return []string{hermesOpen, hermesClose}
	case Llama:
		return []string{llamaTag}
	case Mistral:
		return []string{mistralCalls}
	case MistralArgs:
		return []string{mistralCalls, mistralID, mistralArgs}
	case None:
	}
	return nil
}

// Trigger is what an answer that is free to call or not has written when it calls: from there on the grammar of calls may be enforced.
// atStart says that this counts at the beginning of the answer only. The text is one that [Dialect.Grammar] begins with.
func (d Dialect) Trigger() (text string, atStart bool) {
	switch d {
	case Hermes:
		return hermesOpen, false
	case Llama:
		return `{"name": "`, true
	case Mistral, MistralArgs:
		return mistralCalls, false
	case None:
	}
	return "", false
}

// String is the dialect's name.
func (d Dialect) String() string {
	return [...]string{"none", "hermes", "llama", "mistral", "mistral-args"}[min(d, MistralArgs)]
}
