// Package auditcmd has the commands about the audit log: verify, export, prove, reconcile, hold, prune, erase, witness. They work on the database of an
// installation, whether it runs or not; a witness works on somebody else's log.
package auditcmd
