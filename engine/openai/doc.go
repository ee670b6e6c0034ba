// Package openai is a leaf: the wire types of the OpenAI HTTP dialect and the codec of its event streams.
//
// The edge writes these types and engine/remote reads them, and the other way round for requests. Nothing here does input or
// output over a network, validates a request, or knows what a model is.
package openai
