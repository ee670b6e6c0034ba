// Package registry remembers every answer that left, by keyed fingerprints, and traces a text back to the request that it is the answer of.
//
// # Promise
//
// An answer, an excerpt of [fingerprint.Shortest] characters or more, or a text with some characters changed is traced to the entries of the tenant that it
// comes from. What is looked for is never stored, and neither is any text: the tables hold what package fingerprint makes under a key of the tenant. Without
// that key they say how long answers were and which of them share wordings, and nothing else. Another tenant's key finds nothing.
//
// An entry becomes durable in one commit with the audit record of the outcome, and reaches the database in one transaction with it, exactly once: so
// there is no recorded answer without an entry, whatever crashes when. It goes when that record is pruned, when what is kept of its person is erased, and with
// its tenant, whose key is destroyed. A legal hold that keeps the record keeps the entry.
//
// # What a match says
//
// [Exact] says that the text is what the answer says, but for white space and the width of characters. All else is evidence of some strength, by how many wordings are the same, with the number
// of characters that are: see [Evidence]. Where nothing is found, no registered answer has [fingerprint.Shortest] characters of the text in a row, unless it is so long that it was
// thinned, or so common that it tells nothing. Answers that are shorter are not registered: whoever could ask for them could guess them.
//
// # The index
//
// A segment maps fingerprints to numbers of entries, in blocks that are named by the first bits of a fingerprint: fingerprints are even over their range, so a
// block is found without a directory. Each shipment of records adds a small segment; [Service.Run] merges eight of a level into one of the next, under a new id, in
// small transactions, and one last transaction replaces the eight. Until then nobody reads it, and what a crash leaves of it is removed. A fingerprint
// has at most [common] entries in a segment, the oldest and the newest, and the number of all: wordings that occur everywhere cost a query no more than others. Numbers of entries that are gone are
// passed over by queries and left out by the next merge.
//
// # Errors
//
// Those of package fault: CodeInvalidValue for a text that is too short or too long, CodeDatabaseUnavailable. A [Service] is safe for concurrent use, on any number
// of replicas; one of them merges at a time.
package registry
