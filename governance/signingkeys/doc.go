// Package signingkeys has the keys by which results are signed: one for each tenant, and those it had before.
//
// A tenant's first key is made when its first result is signed. A rotation makes another one and destroys the private half of the one before, so nobody
// can sign with it any more, on no day of the past either; its public half stays for good, and so does what it has signed. A key that somebody else may have
// is revoked: what it has signed is no longer proved by it. After a rotation another replica signs with the older key until its next look, a second later.
//
// Private halves are random, stored under a wrapping key of the installation and part of its rotations. Public halves are in memory, with those of all other
// tenants: who checks a signature need not say whose it is.
//
// A [Store] is safe for concurrent use, on any number of replicas. Errors are those of package fault; a database that does not answer is
// CodeDatabaseUnavailable.
package signingkeys
