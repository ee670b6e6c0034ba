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
// # Special tokens in messages
//
// A caller may write "<|im_end|>" into a message to forge a turn. [Template.RenderSegments] therefore says of every part of the
// prompt whether the template wrote it or a message did, and only the template's parts may become control tokens. It renders twice:
// once as it is, and once with an invisible mark before every character of the messages. The second text without its marks must equal
// the first, otherwise the chat is refused; so a template can neither lose nor move a mark unnoticed.
package chattemplate
