// Package rag is a façade: it takes documents in and finds the passages of them that a principal may see, with citations.
//
// # Who sees what
//
// A collection belongs to one tenant. It and each of its documents may carry labels; a principal sees a document if the principal
// has one of the collection's labels and one of the document's. No labels on a collection mean every principal of the tenant, no
// labels on a document those of the collection. The filter is applied before anything is scored. A collection that does not exist
// and one that the principal may not see give the same answer, as does a request without a tenant.
//
// # Search
//
// BM25 and vectors propose candidates, which reciprocal rank fusion (k = 60) merges. The score of a candidate is the mean of its
// BM25 score, as a share of the highest, and of its cosine, 0 if negative; equal scores are ordered by document id and chunk. The
// cosine is not stretched over the candidates, so that a model which finds everything equally near, as an English model finds
// Chinese, leaves the order to BM25.
//
// A document whose vectors another model made is found by its words, with the median cosine of the candidates in place of its own, and its
// passages say so. [Service.Run] makes its vectors anew ([Service.Reembed]).
//
// Term statistics are those of the documents that the principal sees: scores do not show what is hidden either.
//
// # Storage
//
// Tables hold everything; memory holds what searching needs, so that no search runs SQL. [Service.Load] builds it and
// [Service.Run] follows the changes of other replicas within the poll interval. Changes made here are visible to the next search.
// A collection that could not follow its tables for longer than [Config.MaxStale] cannot be searched (CodeRetrievalFailed).
package rag
