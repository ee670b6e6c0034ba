package capability

import (
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Needs is what a request needs of an instance.
type Needs struct {
	Model    string    `json:"model"`
	Features []Feature `json:"features,omitempty"` // each once
	// PromptTokens is the length of the prompt, 0 if nobody has counted it yet; OutputTokens is the longest completion, 0 if the request names none.
	PromptTokens int    `json:"prompt_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	Images       int    `json:"images,omitempty"`
	Adapter      string `json:"adapter,omitempty"` // must be loaded, or the instance loads adapters by itself
	LowBit       string `json:"lowbit,omitempty"`  // the format that the request insists on, such as "w4a16"
	Role         Role   `json:"role,omitempty"`    // what part of it is asked for; "" is RoleJoint
	// Least is the grade below which nothing is believed. E0 means E1.
	Least Grade `json:"least_grade,omitempty"`
	// Strict refuses an engine whose licence is not known.
	Strict bool `json:"strict,omitempty"`
}

// Why is the kind of a reason.
type Why string

// The kinds of reason.
const (
	WhyMissing   Why = "missing"   // no cell says that it has the feature
	WhyListing   Why = "listing"   // the engine's list of models denies it
	WhyRoadmap   Why = "roadmap"   // announced, or only named
	WhyGrade     Why = "grade"     // less is known of it than is wanted
	WhyCondition Why = "condition" // its condition does not hold
	WhyUnknown   Why = "unknown"   // what its condition speaks of is not known
	WhyContext   Why = "context"   // too long
	WhyShape     Why = "shape"     // no bucket for the shape
	WhyImages    Why = "images"    // too many
	WhyAdapter   Why = "adapter"   // not loaded
	WhyRole      Why = "role"      // it works on another part of requests
	WhyLicence   Why = "licence"   // not known
)

// Reason is why needs are not met: the first that was found, in the order of features and then of the other needs.
type Reason struct {
	Why     Why       `json:"why"`
	Feature Feature   `json:"feature,omitempty"`
	Detail  string    `json:"detail,omitempty"` // the condition, the grade, or the limit; never text of a request
	When    Condition `json:"-"`
	Busy    bool      `json:"busy,omitempty"` // with less to do it would be met
}

// Parameter is the member of a request by which it asked for what is not met, as the API of OpenAI names it.
func (r Reason) Parameter() string {
	switch r.Feature {
	case Completions:
		return "prompt"
	case Embeddings, Rerank, Tokens, Detokenize:
		return "model"
	case Stream:
		return "stream"
	case Tools, Reasoning:
		return "tools"
	case ToolsRequired, ToolsNamed:
		return "tool_choice"
	case ToolsParallel:
		return "parallel_tool_calls"
	case FormatObject, FormatSchema, FormatRegex, FormatGrammar, FormatChoice:
		return "response_format"
	case Logprobs:
		return "logprobs"
	case TopLogprobs:
		return "top_logprobs"
	case Choices:
		return "n"
	case Seed, Stop, Echo:
		return string(r.Feature)
	case TopK, MinP, MinTokens, RepetitionPenalty, FrequencyPenalty, PresencePenalty, LogitBias:
		return strings.TrimPrefix(string(r.Feature), "sampling.")
	default:
		return "messages"
	}
}

// Phrase says the reason to people.
func (r Reason) Phrase() fault.Phrase { return r.phrase() }

// Meets reports whether a request with these needs may be sent to the instance while it is in a state, and if not, why. State wins over the
// contract where both know a fact; batch, prompt_tokens, output_tokens and images of the needs are facts, too.
func (c *Contract) Meets(n Needs, s State) (ok bool, why Reason) { return c.meets(n, s) }

// Of returns the needs of a piece of work. The caller adds what the engine's contract does not know of it: lengths, grade and strictness.
func Of(w engine.Work) Needs { return needsOf(w) }

// Observation is what was seen of a running instance. Zero members were not looked at.
type Observation struct {
	Version  string            `json:"version,omitempty"`
	Matrix   map[string]string `json:"matrix,omitempty"`
	Models   map[string]int    `json:"models,omitempty"` // the longest context of each, 0 if not told
	Adapters []string          `json:"adapters,omitempty"`
	// Features are results of conformance cases: what failed is switched off, what passed rises to Grade, no higher.
	Features map[Feature]bool `json:"features,omitempty"`
	Grade    Grade            `json:"grade,omitempty"`  // that the observation bears: E2 for a simulator, E3 for real software
	Source   string           `json:"source,omitempty"` // the report
}

// Observe returns the contract of an instance of which this was observed. It narrows: a feature that failed is off, a context becomes the shorter of
// both, a version is known. A feature that passed and was claimed is validated if the observation is of real software. One that nobody claimed
// stays missing: a probe shows one case and no guarantee.
func (c Contract) Observe(o Observation) Contract { return c.observe(o) }

// State returns the facts of the contract that conditions may speak of: versions, device, role where there is one.
func (c *Contract) State() State { return c.facts() }

// Check returns all that is wrong with a contract as a document: unknown words, an item without an owner, a status above its grade, a grade from E1 on
// without a source, a negative number, a pattern that is none.
func (c *Contract) Check() []error { return c.check() }

// Field is a row of the list of fields.
type Field struct {
	Number  int      `json:"number"`
	Name    string   `json:"name"`    // as documents write it
	Meaning string   `json:"meaning"` // in English
	Members []string `json:"members"` // of a Contract, such as "Exec.Buckets"
}
