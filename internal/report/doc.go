// Package report writes documents that people file, print and sign: evidence, compliance reports, statements.
//
// A caller says what a document contains, as a [Document]. [Write] sets it as PDF, as DOCX or as Markdown. The caller's package knows what
// the document means; this package knows paper, type and file formats, and nothing of audit or billing.
//
// The promise:
//
//   - The same document gives the same bytes, in one build of the program. Nothing is taken from the clock, so a file can be hashed and signed.
//   - No character vanishes. A control character, an invisible one, a broken byte and, in a PDF, a character that the font lacks are written as
//     their code point, such as [U+0007] or [U+1F600]. Spaces of unusual width become ordinary ones.
//   - A PDF carries the glyphs that it uses, and no more of the font. Its text can be selected, searched and copied, rare Chinese characters
//     included.
//   - Nothing is cut off in the body. Long words are broken, rows that are longer than a page go on at the next one, and a table repeats its
//     head on every page. The lines at the top and the bottom of pages are shortened when they are too long, and so are titles
//     of columns of more than 20 lines.
//
// The font is Noto Sans SC, embedded in the program with its licence, the SIL Open Font License 1.1. A DOCX names the font and does not
// carry it; a word processor without it takes another.
//
// It is a leaf beside internal/message, which has the few words that every document says.
package report
