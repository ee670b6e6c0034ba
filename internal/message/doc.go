// Package message holds every sentence that people read from the server, in English and in Chinese. A text has an
// id. The catalogues en.txt and zh.txt give its two forms.
//
// A [Phrase] is an id with arguments. It is rendered only where it is shown, in the language of the reader. Its arguments are
// names, numbers, paths and other phrases; never prompt, answer, passage or secret text.
//
// An entry of a catalogue is one line, "id: text". Further lines of a text begin with a tab. Lines that begin with # are for
// translators. The entries are sorted by id. Verbs are those of fmt; where a translation needs another order they carry indexes,
// such as %[2]s. English writes ${1:key|keys} for a word that follows the number in the first argument.
//
// It is a leaf. Tests here and in the folder server hold that both catalogues have the same ids
// with the same verbs, that the code says every id with as many arguments, and that no sentence stands in the code.
package message
