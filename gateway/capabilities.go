package gateway

import (
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// checkModel refuses, by the name of its field, what the model cannot do. An engine that does not know a field would leave it out of
// account, and the caller would take an answer for what it is not.
func (c *Call) checkModel(need route.Need, m engine.Model) error {
	unsupported := func(field string, why fault.Phrase) error {
		return fault.New(fault.CodeUnsupported, field, why).WithParam(field)
	}
	if need == route.Embed {
		if c.Dimensions > m.EmbedDim {
			return unsupported("dimensions", fault.Say("the model's vectors have %d", "该模型的向量为 %d 维", m.EmbedDim))
		}
		return nil
	}
	if need != route.Generate {
		return nil
	}
	if c.Logprobs >= 0 && !m.HasLogprobs {
		return unsupported("logprobs", fault.Say("the model does not give log-probabilities", "该模型不提供对数概率"))
	}
	if field := c.Sampling.field(); field != "" && !m.HasSampling {
		return unsupported(field, fault.Say("the model does not honour it; leave it out", "该模型不支持；请去掉此参数"))
	}
	if c.Format != nil && !m.HasFormats {
		return unsupported(c.FormatField, fault.Say("the model cannot be held to a format; ask for it in the prompt", "该模型无法约束输出格式；请在提示词中说明"))
	}
	if m.HasTools {
		return nil
	}
	if len(c.Tools) > 0 {
		return unsupported("tools", fault.Say("the model does not call tools", "该模型不支持工具调用"))
	}
	for i := range c.Messages {
		if len(c.Messages[i].ToolCalls) > 0 {
			return unsupported(at("messages", i)+".tool_calls", fault.Say("the model does not call tools", "该模型不支持工具调用"))
		}
	}
	return nil
}
