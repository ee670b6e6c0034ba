// Package corpus makes texts whose sensitive values are known, to measure detectors by.
//
// People write frames, sentences with placeholders such as {person}; hard negatives, in which nothing is sensitive; and marked
// lines, which hold their values. [Build] fills the frames with made-up values, whose check characters are right, and damages
// the text the way chats, scanners and input methods do. The same files and seed give the same bytes.
//
// Nothing here uses the detectors: the check digits are computed by code of its own, so that one mistake cannot hide another.
package corpus
