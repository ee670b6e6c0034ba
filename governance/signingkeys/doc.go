// Package signingkeys has the keys by which results are signed: one for each tenant, and those it had before.
//
// A tenant's first key is made when its first result is signed. A rotation makes another one and destroys the private half of the one before: within a minute
// no replica has it in memory, and only copies of the database from before have it, encrypted. Its public half stays for good, and so does what it has signed.
// An answer that was under way is signed with the key that was the current one when it began; another replica learns of the new one within a second. A key that
// somebody else may have is revoked: what it has signed is no longer proved by it.
//
// Private halves are random, stored under a wrapping key of the installation and part of its rotations. Public halves are in memory, with those of all other
// tenants: who checks a signature need not say whose it is.
//
// A [Store] is safe for concurrent use, on any number of replicas. Errors are those of package fault; a database that does not answer is
// CodeDatabaseUnavailable.
package signingkeys
