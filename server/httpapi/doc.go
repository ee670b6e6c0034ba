// Package httpapi is the HTTP edge of the data plane: it decodes the OpenAI dialect into gateway calls and renders replies,
// streams and errors. Nothing here decides anything about a request; the pipeline does.
//
// What it promises on the wire: every reply has an x-request-id, but for those of net/http to what is no HTTP; errors have the four keys that the
// official clients read; a stream is one write and one flush per event, ends with [DONE] or with an error event, or breaks off, and stays open with
// comments while a model thinks. Unknown fields pass; fields of a wrong type, and known fields that cannot be honoured, are refused by name, but
// for four of chats that have no effect on any model here.
package httpapi
