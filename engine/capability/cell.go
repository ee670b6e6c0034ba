package capability

// Evidence says of a value who guarantees it, how well it is known and where that stands. What a value leaves out is that of its contract.
type Evidence struct {
	Grade  *Grade    `json:"grade,omitempty" yaml:"grade,omitempty"`
	Owner  Owner     `json:"owner,omitempty" yaml:"owner,omitempty"`
	When   Condition `json:"when,omitzero" yaml:"when,omitempty"`
	Source string    `json:"source,omitempty" yaml:"source,omitempty"` // the id of a source, or several with a comma
}

// Fact is a value with its evidence. In JSON and YAML it is the value alone, or an object of "value" and evidence. A zero Fact is one that is
// not known, which is something else than the zero value: an unknown limit is no limit of 0.
type Fact[T any] struct {
	Value T
	Evidence
	Known bool
}

// Know returns a known fact with the evidence of its contract.
func Know[T any](v T) Fact[T] { return Fact[T]{Value: v, Known: true} }

// Feature is something that a request may need. The list is closed: see [Features].
type Feature string

// The features.
const (
	Chat        Feature = "chat"
	Completions Feature = "completions"
	Embeddings  Feature = "embeddings"
	Rerank      Feature = "rerank"
	Stream      Feature = "stream"
	Usage       Feature = "usage" // counts of tokens are exact

	Tools         Feature = "tools"
	ToolsRequired Feature = "tools.required"
	ToolsNamed    Feature = "tools.named"
	ToolsParallel Feature = "tools.parallel" // one answer may have several calls, and is held to one where that is asked
	Reasoning     Feature = "reasoning"      // thoughts are told apart from the answer

	FormatObject  Feature = "format.json_object"
	FormatSchema  Feature = "format.json_schema"
	FormatRegex   Feature = "format.regex"
	FormatGrammar Feature = "format.grammar"
	FormatChoice  Feature = "format.choice"

	Logprobs    Feature = "logprobs"
	TopLogprobs Feature = "logprobs.top"
	Seed        Feature = "seed"    // the same seed gives the same text on an idle instance
	Choices     Feature = "choices" // several answers to one request
	Stop        Feature = "stop"
	Echo        Feature = "echo"

	TopK              Feature = "sampling.top_k"
	MinP              Feature = "sampling.min_p"
	MinTokens         Feature = "sampling.min_tokens"
	RepetitionPenalty Feature = "sampling.repetition_penalty"
	FrequencyPenalty  Feature = "sampling.frequency_penalty"
	PresencePenalty   Feature = "sampling.presence_penalty"
	LogitBias         Feature = "sampling.logit_bias"

	Tokens     Feature = "tokens"      // tells the tokens of a prompt
	Detokenize Feature = "tokens.text" // makes texts of tokens, in a process of ours

	Hook     Feature = "hook"  // another program weighs tokens before they are drawn
	Classes  Feature = "class" // urgency counts
	Salt     Feature = "prefix.salt"
	Adapters Feature = "adapter" // a named adapter changes the model of one request

	ImageIn  Feature = "in.image"
	AudioIn  Feature = "in.audio"
	VideoIn  Feature = "in.video"
	ImageOut Feature = "out.image"
	AudioOut Feature = "out.audio"

	Cancel  Feature = "cancel" // an abandoned request stops
	Drain   Feature = "drain"  // it can be told to finish and take no more
	Batches Feature = "batches"
)

// Features returns all features, in a fixed order.
func Features() []Feature {
	return []Feature{
		Chat, Completions, Embeddings, Rerank, Stream, Usage, Tools, ToolsRequired, ToolsNamed, ToolsParallel, Reasoning,
		FormatObject, FormatSchema, FormatRegex, FormatGrammar, FormatChoice, Logprobs, TopLogprobs, Seed, Choices, Stop, Echo,
		TopK, MinP, MinTokens, RepetitionPenalty, FrequencyPenalty, PresencePenalty, LogitBias, Tokens, Detokenize, Hook, Classes, Salt, Adapters,
		ImageIn, AudioIn, VideoIn, ImageOut, AudioOut, Cancel, Drain, Batches,
	}
}

// Fallback is what a feature becomes where its condition does not hold.
type Fallback string

// The fallbacks.
const (
	FallbackUnknown Fallback = ""        // nobody says: taken for the worst
	FallbackRefused Fallback = "refused" // the engine answers with an error
	FallbackIgnored Fallback = "ignored" // the field is dropped without a word
	FallbackDiffers Fallback = "differs" // another path runs, whose results may differ
	FallbackSame    Fallback = "same"    // another path runs, slower, with the same results
)

// Cell is what is known of one feature.
type Cell struct {
	Status   Status    `json:"status" yaml:"status"`
	Grade    Grade     `json:"grade" yaml:"grade"`
	Owner    Owner     `json:"owner" yaml:"owner"`
	When     Condition `json:"when,omitzero" yaml:"when,omitempty"`
	Fallback Fallback  `json:"fallback,omitempty" yaml:"fallback,omitempty"`
	Source   string    `json:"source,omitempty" yaml:"source,omitempty"`
	Note     string    `json:"note,omitempty" yaml:"note,omitempty"` // what a reader should know of it, in English
}

// Proven is the status that the grade bears out: E0 none but a roadmap's, E1 and E2 a claim, E3 and E4 all. What a simulator shows is what
// its authors have read, so it proves no more of the engine than they claim.
func (c Cell) Proven() Status {
	switch {
	case c.Status == Roadmap || c.Status == "" || c.Grade == E0:
		return Roadmap
	case c.Grade < E3:
		return Claimed
	}
	return c.Status
}

// Holds reports whether the feature may be used in a state, for somebody who wants evidence of at least a grade. why is set if not.
func (c Cell) Holds(least Grade, s State) (why Why, ok bool) {
	switch {
	case c.Proven() == Roadmap:
		return WhyRoadmap, false
	case c.Grade < least:
		return WhyGrade, false
	case c.When.Eval(s) == Yes, c.Fallback == FallbackSame:
		return "", true
	case c.When.Eval(s) == Unknown:
		return WhyUnknown, false
	}
	return WhyCondition, false
}
