package gateway

import (
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// checkModel refuses a field that the model does not support. An engine ignores a field that it does not know, and the caller would
// misread the answer.
func (c *Call) checkModel(need route.Need, m engine.Model) error {
	unsupported := func(field string, why fault.Phrase) error {
		return fault.New(fault.CodeUnsupported, field, why).WithParam(field)
	}
	if need == route.Embed {
		if c.Dimensions > m.EmbedDim {
			return unsupported("dimensions", fault.Say("model.vector_size", m.EmbedDim))
		}
		return nil
	}
	if need != route.Generate {
		return nil
	}
	if c.Logprobs >= 0 && !m.HasLogprobs {
		return unsupported("logprobs", fault.Say("model.no_logprobs"))
	}
	if field := c.Sampling.field(); field != "" && !m.HasSampling {
		return unsupported(field, fault.Say("model.unsupported"))
	}
	if c.Format != nil && !m.HasFormats {
		return unsupported(c.FormatField, fault.Say("model.no_formats"))
	}
	if m.HasTools {
		return nil
	}
	if len(c.Tools) > 0 {
		return unsupported("tools", fault.Say("model.no_tools"))
	}
	for i := range c.Messages {
		if len(c.Messages[i].ToolCalls) > 0 {
			return unsupported(at("messages", i)+".tool_calls", fault.Say("model.no_tools"))
		}
	}
	return nil
}
