// Package fingerprint makes keyed fingerprints of texts, by which an excerpt is recognised without the text being kept.
//
// # Promise
//
// A text is first normalised: letters and numerals stay, in one case, compatibility forms as what they stand for, without accents; o and 0 are one, and so are
// i, l and 1, which readers of screenshots confuse. Whitespace, punctuation, marks of Markdown, symbols and invisible characters go. Every [Gram] characters of what
// is left are a gram, and of every [Window] grams in a row the one with the least keyed hash is selected (winnowing: Schleimer, Wilkerson, Aiken 2003). So any
// two texts that share [Shortest] characters share a fingerprint, for certain, wherever the cuts are.
//
// A fingerprint has 56 bits, from a block cipher under the [Key] over the hash of a gram. Whoever has fingerprints and no key learns which of them are equal, and nothing
// else. Fingerprints of two keys have nothing in common. A digest is an HMAC of the whole text as it is read:
// white space of any length is one space, characters that are composed or of full width are what they look like, and nothing else is made equal. So what changes a number or a
// word changes the digest, though not always a fingerprint.
//
// # Units
//
// Characters are those of the normalised text, but for the places of a [Question], which are characters of the text that was asked, from 0.
//
// A [Key] is safe for concurrent use. A [Printer] belongs to one goroutine; it holds nothing of the text but its last characters. Nothing here fails on a
// text: bytes that are no UTF-8 are left out.
package fingerprint
