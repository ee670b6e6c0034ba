// Package watermark is a leaf: marks texts in the choice of their tokens, and finds the mark again with the secret key alone. It knows
// numbers of tokens and weights, no engine, no database and no text: whoever looks for a mark tokenises the text, with the tokenizer of
// the model that may have written it.
//
// # What a mark says
//
// It says of whose wording a text is, not that the text is whole or true: who changes a number in it keeps the mark. And the absence of
// a mark says nothing at all: short texts, texts of which every word was clear beforehand, and paraphrases carry none.
//
// # Keys
//
// A [Key] is made of the secret of a tenant, the number of an epoch and the parameters, by HKDF-SHA256 with all of them and the tenant's
// name in its info. So whoever gets to know one key learns nothing of another tenant, epoch or scheme, and a change of parameters is
// another key. A key has [Params.SubKeys] sub-keys. A choice of an answer is marked with one of them: the one that the seed of the
// request decides, and for the next choice the next one. So choices differ, and whoever sends the same
// seed gets the same. Repeats without a seed differ as far as there are sub-keys: two of them that draw the same one and begin with the same tokens are equal. Of 400
// repeats of a text of little choice (0.33 nats a token) 368 were distinct with 256 sub-keys, and all 400 without a mark. Whoever always sends one seed stays with one sub-key. A sub-key is not kept anywhere: the detector tries all of them, and its p says so.
//
// # What is drawn
//
// Before each token the generator has a context: the last tokens of the completion, [Context] of them with [Gumbel]. AES-256 of the
// context, masked with the sub-key, gives 128 bits, which nobody can tell from random ones, or connect with those of another context,
// without the key. A mixer of 64 bits makes of them the number v of a token, 0 < v < 1. The mixer is fast and not cryptographic: who
// could invert it from the tokens that he sees would know the numbers of this one context and sub-key, and of no other. Who may choose the seed and the bias of
// tokens comes to know more than a reader: the same context again and again under one sub-key, with weights of his choice, bares the numbers of its tokens in some
// fifty requests for a pair. So a mark does not stand up to a caller who wants to forge a few words of his own answers; it stands up to readers.
//
// The first tokens, which have no whole context in the completion, are not marked: a context that reached into the prompt could not be
// found again in the answer, and answers to the same prompt begin differently this way.
//
// # Gumbel-max
//
// Of the weights p that are left after temperature, penalties, top-k, top-p and min-p, the token with the least −ln(1−v)/p is taken. A
// token is drawn with exactly its probability, over the keys. A context that was there before in the answer would draw with the same
// numbers again, and texts would run in circles; so it is left to the ordinary random numbers of the request. With that, the answer as
// a whole has exactly the distribution that it has without a mark, over the keys. What remains is that answers are not independent of
// each other: two to one prompt with the same sub-key that have come to the same context go on alike for a while.
//
// # KGW
//
// With [KGW], a share of all tokens, another one after each context, weighs e^delta times as much. It can mark at temperature 0, and it
// changes what is said. It is there for whoever has to use it.
//
// # Statistics
//
// On a text that was written without the key, −ln v of the tokens are independent and exponential, whatever the text is, as long as none
// is counted twice: the detector counts a context once, as the generator marks it once. Of n tokens the sum has the gamma distribution
// of shape n, whose upper tail is computed exactly. KGW counts pairs of context and token once, and has the exact binomial tail.
//
// Besides the text as a whole, runs of 64, 128, 256 … counted tokens are tried, each beginning a quarter of its length after the one
// before: a marked passage in a longer text is found. The whole text gets one half of the error and the runs together the other
// (Bonferroni). Keys and sub-keys are independent of each other, so for K of them p becomes 1−(1−p)^K (Šidák, exact). K is the number of
// sub-keys of all keys that are tried, times [DetectorConfig.Attempts]. The result is a p that is at most a given p0 with probability p0 at most.
//
// Evidence does not add up over sub-keys: each request has its own. Twelve answers of 60 tokens that are joined into one text say less than one answer of 720. So a text
// is judged by its longest answer.
//
// "Probability" is over the keys. For one key, texts that share passages share their luck: if a paragraph of a template happens to score
// high, it does so in every letter. Give such paragraphs to [Detector.Detect] as known: nothing of them is counted but their first tokens, whose context is what stands before. Which texts and how
// many are tried decides how many false findings there are: at p ≤ 1e-9, one in a thousand million texts.
//
// # Tokens
//
// The text is tokenised again, so its tokens need not be those that were drawn: at the beginning of a fragment, where a word is cut, and
// where a model writes a word in other pieces than the tokenizer would. Every token that differs costs itself and the tokens whose
// context it is in, five at most; the count goes on behind it. So do edits.
package watermark
