// Package modelstore is a leaf (it imports only internal/fault) that keeps the files Sluice needs and does not carry: models and the Temporal CLI. One catalogue
// (catalogue.yaml) lists each artefact with its size, SHA-256, licence and an ordered list of sources. The first source that answers
// wins, and the digest decides: what does not match is thrown away, whoever sent it.
//
// # What holds
//
// A file under its final name is complete and has been checked; it gets there by rename from a temporary file in the same file
// system, after fsync. An interrupted download goes on where it stopped. Two processes that pull the same file wait for each other.
// Sources that do not answer fail after seconds, so a closed network reaches its package mirror quickly. Nothing is ever executed from
// an archive, and members of archives are written to the catalogue's paths only.
package modelstore
