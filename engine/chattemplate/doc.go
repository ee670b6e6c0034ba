// Package chattemplate is a leaf that renders a chat into the prompt a model was trained on, with the Jinja template that model files
// carry.
//
// # Sandbox
//
// A template comes from a model file, so it is treated as code of a stranger. gonja parses it; of gonja's run time only arithmetic,
// comparisons, if, for and macro stay in use. Every expression is rewritten after parsing: attribute access, indexing, slicing and
// method calls go to functions of this package that know strings, lists and dictionaries and nothing else (no reflection, no Go
// methods), and everything that copies or prints data is charged to a budget of work, which grows with the chat. A template that
// exceeds it, or the limits on size, output, recursion or time, ends with an error. Loading other templates is not possible. Errors
// never carry text of the chat.
//
// # Special tokens in texts of callers
//
// A caller may write "<|im_end|>" into a message, a tool's description or an argument of a call to forge a turn.
// [Template.RenderSegments] therefore says of every part of the prompt whether the template wrote it or a caller did, and only the
// template's parts may become control tokens. It renders twice: once as it is, and once with an invisible mark before every character
// that a caller wrote. The functions of the sandbox see texts without marks and cut them with their marks, so that the template does
// the same both times; should the second text without its marks differ from the first all the same, the chat is refused. What tojson
// writes counts as a caller's as a whole.
//
// # Tools
//
// A template sees tools, calls and results as Hugging Face documents them: {"type": "function", "function": {…}} with the keys of a
// JSON schema in the caller's order, and arguments as a dictionary. Templates differ, so a call is first rendered on trial: one that
// wants arguments as JSON text, or no content instead of an empty one, gets that. IDs that a template of Mistral's would refuse for
// their length become digests of nine characters.
//
// A template that does not mention tools would leave them out. For such a template they become text: tools and how to call them go
// into the system message, or the user's first if the template refuses that role; calls into the text of their turn, and results into
// a turn of the user, each in the form that engine/toolcall calls Hermes.
package chattemplate
