// Package agreement keeps the agreements under which answers go without a visible label, and says which is in force.
//
// Article 9 of the Measures for Labelling AI-Generated Synthetic Content lets a provider leave the explicit label out if a user asks for it, after an
// agreement has made the user's duties and responsibilities clear. The provider keeps logs of it, with information on the recipient, for six months at least.
//
// # Life
//
// A person asks ([Store.Ask]): for a tenant, or for one project or key of it, for two years at most, with the digest of the text that the recipient has
// accepted. A second person approves ([Store.Approve]), always, whatever the duties of administrators are. From then on, and not before its first day, it is in
// force until its last day, or until somebody revokes it ([Store.Revoke]): at once on this replica (at the next poll if it could not be read back), within two seconds on others that
// reach the database. Nothing of an agreement
// changes otherwise, and nothing deletes one: not a pruning of the audit log, and not the erasure of its tenant.
//
// # In force
//
// [Store.Effective] reads a snapshot and never blocks. What cannot be confirmed is not in force: before the first load, and once the database was away for longer
// than the snapshot may be old. Its caller then leaves the visible label in, which is the safe side.
//
// A [Store] is safe for concurrent use, on any number of replicas. Times are UTC, stored as microseconds. Errors are those of package fault; a database that
// does not answer is CodeDatabaseUnavailable.
package agreement
