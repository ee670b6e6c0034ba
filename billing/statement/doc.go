// Package statement is a leaf: it makes the statement of what one tenant used in one month, and writes it as PDF, DOCX, Markdown, CSV or
// JSON, in English or Chinese, and as rows of FOCUS 1.2.
//
// # Figures
//
// Amounts are whole numbers of 10⁻⁹ currency unit, as the books have them. The lines of a statement sum to what was billed: where price and
// quantity do not make the billed amount, because a price book is not there any more, the line has the billed amount and no price.
// [Amounts.Payable] is the only figure that is rounded. [Rounding] names how.
//
// # States
//
// A statement is provisional until its month is closed. A closed one never changes. What is billed for its month later stands in the first
// month that is still open, in lines that name the month. Corrections are rows of their own, in the month in which they were made.
//
// # Digest
//
// [Statement.Digest] covers the whole content. It is the SHA-256 of the JSON object "statement" of the JSON form, byte by byte.
package statement
