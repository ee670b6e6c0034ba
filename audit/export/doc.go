// Package export takes records out of the log for others: evidence bundles, proofs of single records, and the whole log as C2SP tlog-tiles.
// Each convinces someone who has nothing but the public key; package evidence has their forms. An exporter changes nothing, and whoever calls it
// records who exports, first.
package export
