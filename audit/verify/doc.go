// Package verify checks an audit log from its payload bytes up, trusting nothing but the public key: every leaf, the whole tree, every
// checkpoint and cosignature, the copies of the checkpoints outside the database, gaps, search columns, kept texts, prunings, and the write-ahead
// log. It names what was altered, removed, reordered or cut off. It only reads, so a running log can be verified.
package verify
