// Package files keeps the files of callers: what batches read, what they write, and what an application wants to keep.
//
// A file belongs to an [Owner], a project of a tenant or a person of it. Nobody else can tell whether it exists. Its content is a blob. A tenant has
// each content once, however many files have it; two tenants never share one. A blob has a data key of its own, which is stored under a wrapping
// key of the installation and takes part in its rotations. The content is encrypted in chunks, each bound to its place; so is the name of the file.
// What the database shows in clear is whose the file is, what it is for, how long it is, and when it came and goes.
//
// Nothing is held in memory but one chunk. A content arrives through [Store.Begin] and is a file once [Upload.Commit] has returned; what was given up
// on the way, [Store.Run] removes. It also removes files that have expired, unless a batch reads them.
//
// A [Store] is safe for concurrent use, an [Upload] and a [Reader] are not. All changes of a tenant's files take the same row first, so bounds hold
// exactly on any number of replicas. Errors are those of package fault; a database that does not answer is CodeDatabaseUnavailable.
package files
