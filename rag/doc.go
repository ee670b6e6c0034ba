// Package rag is a façade: it takes documents in and finds the passages of them that a principal may see, with citations.
//
// # Who sees what
//
// A collection belongs to one tenant. It and each of its documents may carry labels; a principal sees a document if the principal
// has one of the collection's labels and one of the document's. No labels on a collection mean every principal of the tenant, no
// labels on a document those of the collection. The filter is applied before anything is scored. A collection that does not exist
// and one that the principal may not see give the same answer, as does a request without a tenant.
//
// A document may also have a [Rule], for itself and for parts of it, by principal, role, label and purpose. Passages with the same conditions lie in one
// group, and a search joins the groups that let its reader in: see groupSets. Whoever may only write documents cannot open one that is there.
//
// # When
//
// Versions are kept, each with the time in which it is in effect. Searches see what is in effect now, without any change of the tables when a time comes, or
// at a time of the past.
//
// # Search
//
// BM25 and vectors propose 200 candidates each, of which 50 are kept: the first of each, and those with the highest sums of reciprocal
// ranks (k = 60). Their final order is by features of question and passage with learned weights (package rag/rank); equal scores are
// ordered by document id and chunk. Vectors count as far as they agree with the words beyond chance, so that a model which finds
// everything equally near, or near at random, as an English model finds Chinese, leaves the order to BM25. A passage without a vector that
// can be compared counts as near as the median.
//
// A version whose vectors another model made is found by its words, and its passages say so. [Service.Run] makes its vectors anew ([Service.Reembed]).
//
// A question that has a name of the collection's glossary is searched with the other names, too, by words: package rag/glossary.
//
// Of passages with the same text, among those that the reader sees, the best comes and says how many were left out.
//
// Term statistics are those of the documents that the principal sees: scores do not show what is hidden either.
//
// Vectors are compared exactly, after rounding to 16 bits a component: index/sq8.
//
// # Storage
//
// Tables hold everything. What searching needs lies in a store of each collection on the local disk, encrypted under keys derived from the master key
// (package rag/segment), so that no search runs SQL, texts are not held in memory, and a replica that starts reads only what changed since it stopped.
//
// [Service.Load] opens the stores and [Service.Run] follows the changes of other replicas within the poll interval, by a journal that each change of the tables
// is noted in. What is light, such as a right that is taken away, an end, a deletion, waits for no document that is being read or indexed. Changes made here
// are visible to the next search. A store says up to which change it is complete, with the mark of that change; one that is damaged, of another model, key or
// release, or of tables with another history, is removed and made again. A store that could not be told of a change is searched no more until it was opened
// again, and a collection that could not follow its tables for longer than [Config.MaxStale] neither (CodeRetrievalFailed): whether it did not come
// to the end of who may see what, or failed to read what documents say.
//
// What is deleted leaves the disk of each replica within some ten minutes, and so does what a rule said that was replaced. A start that fails removes nothing; a
// collection that cannot be opened is there and answers CodeRetrievalFailed.
package rag
