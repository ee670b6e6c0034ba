// Package fault is the error model of Sluice: a closed table of codes, each with the kind that decides the HTTP status and
// with the sentence a caller may read, in English and in Chinese, in the catalogues of internal/message.
//
// Domain code returns an [Error] built by [New] or [Wrap]; wrapping with fmt.Errorf adds private context that reaches the log
// and never the caller. The HTTP edge alone renders. An error without a code is Internal and says nothing.
//
// The reasons inside sentences are phrases of the same catalogues, made by [Say].
//
// The sentences name the cause and the remedy. Their arguments are identifiers, limits and parameter paths; never prompt,
// answer, passage or secret text.
package fault
