// Package safety is a leaf: it judges texts by rule libraries: which words stand for which of the risks of GB/T 45654, and what happens to a text that has
// them. It knows no policies, requests or transports.
//
// A [Library] is a versioned file of rules. [Compile] makes a [Matcher] of libraries, which never changes. It reads
// normalised characters: compatibility forms, full width and case folded, traditional characters simplified, common letters that look like Latin
// ones taken for those, invisible characters and accents left out, and up to a few separators between the characters of a word passed over. Offsets
// are those of the original.
//
// What it promises of a stream, see [Stream]:
//
//   - No text that a rule blocks or replaces is ever shown, in whole or in part, wherever the stream is cut into pieces.
//   - What waits is bounded: only what may still become a match, which has at most [MaxWord] characters with [MaxGap] separators between two, and up to
//     256 invisible ones behind each; nothing waits where no rule blocks or replaces.
//   - The same stream has the same hits and the same text, wherever it is cut.
//
// What it does not see: meaning. A text that says in other words what a rule names passes; a rule's word in a harmless text is a false alarm
// unless an exception names its context.
//
// No error, hit or log line of this package holds a text: a [Hit] names the rule alone.
package safety
