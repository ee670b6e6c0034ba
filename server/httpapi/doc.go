// Package httpapi is the HTTP edge of the data plane: it decodes the dialects of OpenAI, Anthropic, Ollama, Cohere and the Open Inference
// Protocol into gateway calls and renders replies, streams and errors. Nothing here decides anything about a request; the pipeline does.
//
// What it promises on the wire: every reply has an x-request-id, but for those of net/http to what is no HTTP; errors have the form that the
// official clients of the dialect read; a stream is one write and one flush per event, ends with its last event or with one that tells an error, or breaks
// off, and stays open while a model thinks, with what clients skip where they skip anything. Unknown fields pass; fields of a wrong type, and known fields that
// cannot be honoured, are refused by name, but for those few of each dialect that the guide for applications lists as without effect on any model here. What a
// dialect's clients look for and is not offered is refused as such.
package httpapi
