// Package compliance makes the reports that an installation gives to auditors and to its own files: the result of a verification of the
// audit log, and what an evidence bundle contains.
//
// A report repeats what was found and says how to find it again. It proves nothing by itself; the signed checkpoint does. Every report says
// which log it is about, by its name and its public key, and has the root of the tree at the bottom of each page.
//
// The functions return documents. Package report writes them.
package compliance
