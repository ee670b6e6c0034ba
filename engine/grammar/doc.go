// Package grammar is a leaf that says which tokens may come next, so that a model's answer is a text of a given language.
//
// A [Builder] composes grammars: context-free rules over lexemes, which are regular expressions with intersection and complement.
// [ParseGBNF], [ParseRegex] and [Choice] write them from text. A [Grammar] is immutable; a [Matcher] follows one text through it, and
// says for a [Vocabulary] which tokens may follow.
//
// # What is promised
//
// A token is allowed exactly if the text so far and the token's bytes begin some text of the language that the vocabulary can spell.
// Every reading of an ambiguous text is followed at once; no lexeme is greedy. So whoever takes allowed tokens only, whichever they
// are, never gets stuck before the text is complete. Texts are valid UTF-8. A character counts as spellable if all of its bytes are
// tokens, or if it is a token by itself; others do not exist for the grammar.
//
// # How
//
// The vocabulary is a byte trie laid flat in memory. Lexemes become automata by Brzozowski derivatives, state by state as texts need
// them. The parser is Earley's, with sets that are shared when their kernels are equal, so that a place in a text is a small set of
// threads, each a lexer state and a parser set, and recurs as the same value. What lies inside a lexeme depends on the lexer's state
// alone: it is computed once by walking the trie, and only tokens that go beyond the lexeme's end involve the parser.
//
// # Bounds
//
// Grammars come from strangers. [Limits] bounds the size of a grammar, the work of preparing it, the work of each call and the memory
// that is kept; beyond them is an [Error] that says how to mend the grammar.
package grammar
