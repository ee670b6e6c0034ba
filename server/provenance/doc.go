// Package provenance is a façade over the marks that an answer carries: it says in one verdict where a text or a file comes from, and writes the evidence for it.
//
// Five marks are looked at, each for what it can show:
//
//   - The label says that a machine made the content, and names a request. Its code proves that this installation issued the label. It covers nothing of the
//     content: a label can be moved to another text.
//   - The content credentials (C2PA) of a picture or a PDF prove that this installation labelled exactly this file: they bind the label to every byte. Whether what is in the file is the
//     answer that the label names, they do not say.
//   - The signature proves that this installation delivered exactly these texts. One changed character, and it proves that something was changed.
//   - The watermark shows whose wording a text is, with an exact probability of chance. It survives small edits and says nothing of facts that were changed.
//   - The registry of answers leads a text, or an edited part of it, back to its request. That an answer has the same words is a trace and no proof that the text is authentic, nor
//     does it tell who wrote them first: only this installation can compare, of passages letters and numerals alone, and entries are no more than rows of its database.
//
// A [Verdict] has all five, also those that found nothing, each with its reason, and one [Conclusion]. Marks are held against each other: a label that names another
// request than the text leads to was moved there, and the conclusion says that the marks contradict. That nothing was found never means that a person wrote the text.
//
// What is asked about is kept nowhere. Errors of a part that should have answered end the verdict: half a verdict would be read as a whole one. What a part could not
// judge, such as a text that is too short for it, or a registry that cannot be read, is said in its mark.
package provenance
