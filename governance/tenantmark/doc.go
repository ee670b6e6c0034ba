// Package tenantmark has the watermark of each tenant: its keys, and whether a text has it.
//
// # Keys
//
// A tenant's first key is made when its first answer is marked. A rotation makes another one; the one before marks nothing from then on, and finds
// what it has marked for good: unlike the private half of a signing key its secret stays, since nothing else finds a mark. Whoever gets to know it can
// remove the mark, and forge it. Policies that mark by other parameters get keys of their own. They all go with the tenant. An answer that was under
// way is marked by the key that was the current one when it was admitted; another replica learns of the new one within a second.
//
// Secrets are random, stored under a wrapping key of the installation and part of its rotations. In memory they are for a minute after they were used.
//
// # Detection
//
// [Service.Detect] tries all keys that a tenant has and had, by the tokens that each model of this installation would make of the text. What was marked
// with a model that is not there any more is found only if another one has the same tokens. p pays for all that was tried. The text is kept nowhere.
//
// An open detector helps whoever wants to remove a mark: he changes words until it is gone. So detections are limited by tenant.
//
// A [Store] and a [Service] are safe for concurrent use; a store on any number of replicas. Errors are those of package fault; a database that does not
// answer is CodeDatabaseUnavailable.
package tenantmark
