package gateway

import (
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// checkDimensions refuses longer vectors than the model gives.
func (c *Call) checkDimensions(need route.Need, m *engine.Model) error {
	if need == route.Embed && c.Dimensions > m.EmbedDim {
		return fault.New(fault.CodeUnsupported, "dimensions", fault.Say("model.vector_size", m.EmbedDim)).WithParam("dimensions")
	}
	return nil
}

// unsupported refuses what no engine does that the call might go to, and names the field that asked for it: an engine ignores a field that it does not
// know, and the caller would misread the answer.
func (c *Call) unsupported(why capability.Reason) error {
	field := why.Parameter()
	switch why.Feature {
	case capability.FormatObject, capability.FormatSchema, capability.FormatRegex, capability.FormatGrammar, capability.FormatChoice:
		field = c.FormatField
	case capability.Tools:
		field = c.toolsField()
	default:
		if name, ok := c.FieldNames[field]; ok {
			field = name
		}
	}
	return fault.New(fault.CodeUnsupported, field, why.Phrase()).WithParam(field)
}

// toolsField is the field that brought tools, or the first calls of an earlier answer.
func (c *Call) toolsField() string {
	for i := range c.Messages {
		if len(c.Tools) == 0 && len(c.Messages[i].ToolCalls) > 0 {
			return c.place(i) + ".tool_calls"
		}
	}
	return "tools"
}
