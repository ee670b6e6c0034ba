package capability

import "github.com/sluice-project/sluice/engine"

// Listed reports whether the list that an engine keeps of its models gives a feature to a model. It is the one table of what the members of that list
// speak of. told is false where no member speaks of the feature; has then says whether it comes with what the model does.
func Listed(m *engine.Model, f Feature) (has, told bool) {
	switch f {
	case Chat:
		return m.CanGenerate && !m.PromptOnly, true
	case Completions:
		return m.CanGenerate, true
	case Embeddings:
		return m.CanEmbed, true
	case Rerank:
		return m.CanScore, true
	case Tools, ToolsRequired, ToolsNamed, ToolsParallel:
		return m.HasTools, true
	case FormatObject, FormatSchema, FormatRegex, FormatGrammar, FormatChoice:
		return m.HasFormats, true
	case Logprobs, TopLogprobs:
		return m.HasLogprobs, true
	case TopK, MinP, MinTokens, RepetitionPenalty, FrequencyPenalty, PresencePenalty, LogitBias, Echo:
		return m.HasSampling, true
	case Tokens:
		return m.HasTokens, true
	case Detokenize:
		return m.HasDetokenize, true
	case Hook:
		return m.HasHooks, true
	case Classes:
		return m.HasClasses, true
	case Stream, Stop, Choices, Seed:
		return m.CanGenerate, false
	default:
		return false, false
	}
}
