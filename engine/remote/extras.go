package remote

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/fault"
)

// field is a member of a body that the profile names: a path of members, and a value that encodes to JSON.
type field struct {
	path  string
	value any
}

// extended is a body of OpenAI's form with further members at its end, in their order.
type extended struct {
	base any
	more []field
}

// MarshalJSON implements json.Marshaler.
func (x extended) MarshalJSON() ([]byte, error) {
	base, err := json.Marshal(x.base)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(base[:len(base)-1])
	for _, f := range x.more {
		v, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		names := strings.Split(f.path, ".")
		for i, name := range names {
			lead := ","
			if i > 0 {
				lead = "{"
			}
			out.WriteString(lead + strconv.Quote(name) + ":")
		}
		out.Write(v)
		out.WriteString(strings.Repeat("}", len(names)-1))
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// knob is a sampling field of a request: what OpenAI's interface calls it, how the profile spells it, and its value if one is asked for.
type knob struct {
	name  string
	as    profile.Parameter
	value any
	asked bool
}

func knobs(r *profile.Request, req *engine.Request) []knob {
	var bias map[string]float64
	for token, v := range req.LogitBias {
		if bias == nil {
			bias = map[string]float64{}
		}
		bias[strconv.Itoa(int(token))] = v
	}
	penalty := req.RepetitionPenalty
	return []knob{
		{"top_k", r.TopK, req.TopK, req.TopK > 0},
		{"min_p", r.MinP, req.MinP, req.MinP > 0},
		{"repetition_penalty", r.RepetitionPenalty, penalty, penalty != 0 && penalty != 1},
		{"frequency_penalty", r.FrequencyPenalty, req.FrequencyPenalty, req.FrequencyPenalty != 0},
		{"presence_penalty", r.PresencePenalty, req.PresencePenalty, req.PresencePenalty != 0},
		{"logit_bias", r.LogitBias, bias, len(bias) > 0},
		{"min_tokens", r.MinTokens, req.MinTokens, req.MinTokens > 0},
	}
}

// extras spells sampling and format as the upstream's dialect does. What it has no name for is refused.
func extras(m model, req *engine.Request) ([]field, error) {
	r := &m.profile.Request
	var out []field
	asked, unknown := req.Echo, ""
	for _, k := range knobs(r, req) {
		asked = asked || k.asked
		switch {
		case k.asked && k.as.Name == "":
			if unknown == "" {
				unknown = k.name
			}
		case k.asked:
			out = append(out, field{k.as.Name, k.value})
		case k.as.Neutral != nil && k.as.Name != "" && (!k.as.Sampled || req.Temperature > 0):
			out = append(out, field{k.as.Name, *k.as.Neutral})
		}
	}
	if req.Echo && r.Echo.Name == "" && unknown == "" {
		unknown = "echo"
	}
	switch {
	case unknown != "":
		return nil, unsupported(unknown, fault.Say("remote.unsupported"))
	case asked && !m.Sampling:
		return nil, unsupported("sampling", fault.Say("remote.unsupported"))
	case req.Seed != nil && r.Seed.Name == "":
		return nil, unsupported("seed", fault.Say("remote.unsupported"))
	case req.Seed != nil && r.Seed.Name != "seed":
		out = append(out, field{r.Seed.Name, *req.Seed & math.MaxInt64})
	}
	shape, err := format(m, req.Format)
	if err != nil || shape == nil {
		return out, err
	}
	return append(out, *shape), nil
}

// format spells what the answer is held to.
func format(m model, f *engine.Format) (*field, error) {
	r := &m.profile.Request
	var p profile.Parameter
	var plain any
	var kind string
	switch {
	case f == nil:
		return nil, nil
	case !m.Formats:
		return nil, unsupported("response_format", fault.Say("model.no_formats"))
	case f.JSONObject:
		p, kind = r.JSONObject, openai.FormatObject
	case f.JSONSchema != nil:
		p, plain, kind = r.JSONSchema, f.JSONSchema, openai.FormatSchema
	case f.Regex != "":
		p, plain, kind = r.Regex, f.Regex, "regex"
	case f.GBNF != "":
		p, plain, kind = r.Grammar, f.GBNF, "grammar"
	default:
		p, plain, kind = r.Choice, f.Choice, "choice"
	}
	if p.Name == "" {
		return nil, unsupported("response_format", fault.Say("remote.json_formats_only"))
	}
	return &field{p.Name, p.Spell(kind, plain)}, nil
}
