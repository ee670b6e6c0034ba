// Package cli is what the commands of sluice share: what they take from the operating system, errors in the reader's language, checks of
// arguments, tables, reports in files, and the client of the management API.
//
// The commands are in the packages beside it, by what they are about. Each has a function that makes them out of an [App].
package cli
