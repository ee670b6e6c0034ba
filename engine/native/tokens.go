package native

import (
	"errors"

	"github.com/sluice-project/sluice/engine/arch"
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
