// Package tenantmark has the watermark of each tenant: its keys, and whether a text has it.
//
// # Keys
//
// A tenant's first key is made when its first answer is to be marked. A rotation makes another one; those before mark nothing from then on, and find what
// they have marked for good: unlike the private half of a signing key a secret stays, since nothing else finds a mark. Whoever gets to know it can remove
// the mark, and forge it. So a key that leaked is revoked: it marks nothing from then on, and what it finds is an indication at most, whenever the text was
// made, since a mark has no date. Policies that mark by other parameters get keys of their own; a rotation goes on with the parameters of the
// newest key that marks. They all go with the tenant.
//
// An answer that was under way is marked by the key that was the current one when it was admitted. Another replica learns of the new one within two seconds;
// one that does not reach the database marks by the one it has in memory until its knowledge is too old.
//
// Secrets are random, stored under a wrapping key of the installation and part of its rotations. In memory they are for a minute after they were used.
//
// # Detection
//
// [Service.Detect] tries the newest keys that a tenant has and had, or the one that is named, by the tokens that each model of this replica would make of
// the text. What was marked with a model that is not there any more is found only if another one has the same tokens. p pays for all that one question
// tries, and for no other question. The text is kept nowhere, but for words of it in the caches of tokenizers.
//
// An open detector helps whoever wants to remove a mark: he changes words until it is gone. So questions are limited, by caller and replica: see package
// adminapi. Detections compute one at a time on a replica, and tenants take turns.
//
// A [Store] and a [Service] are safe for concurrent use; a store on any number of replicas. Errors are those of package fault; a database that does not
// answer is CodeDatabaseUnavailable.
package tenantmark
