// Package toolcall is a leaf that knows how models write calls of functions, which is a matter of the family a model belongs to.
//
// [Detect] reads the dialect off a model's chat template. A [Parser] takes the text of an answer as it grows and splits it into text
// for the reader and calls. [Dialect.Grammar] says which texts are calls of given tools, for answers that have to be calls.
//
// # What is a call
//
// Calls in an answer look like this; white space between their parts is free, and "parameters" may stand for "arguments":
//
//	Hermes       <tool_call>{"name": …, "arguments": {…}}</tool_call>, or a list of such objects inside the tags
//	Llama        {"name": …, "parameters": {…}}, at the beginning of the answer or after <|python_tag|>; more of them after ";"
//	Mistral      [TOOL_CALLS][{"name": …, "arguments": {…}}, …]
//	MistralArgs  [TOOL_CALLS]name[ARGS]{…}, repeated, with [CALL_ID]… before [ARGS] if the model likes
//
// Whatever is not exactly that, or calls a function that was not offered, is text. Arguments are passed on as the model wrote them, and
// are always a JSON object. A call is passed on when its JSON is complete; only where a grammar guarantees the rest
// ([Options.Guaranteed]) its arguments are passed on as they come, and only then can the end of the answer cut a call ([Parser.Open]).
//
// # Templates without tools
//
// Detect answers Hermes for a template that does not mention tools: engine/chattemplate writes the tools into the system message of
// such templates, with instructions in this dialect. A template that mentions tools in a dialect not listed above gets None: its model
// cannot be offered tools.
package toolcall
