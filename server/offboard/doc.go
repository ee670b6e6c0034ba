// Package offboard is a façade over everything that has rows of a tenant: it lets a tenant go for good, with an export of what is theirs and an erasure
// that others can check.
//
// An offboarding goes suspended → exporting → exported → erasing → erased, and its row says where it is. Nothing is erased before an export was made
// or was declined with a reason, before a second person has agreed (the management API sees to that), nor past a legal hold that nobody lets pass.
// The transaction that decides about the erasure also closes the tenant: from then on nothing new of it comes.
//
// The erasure itself is done by [Service.Run], of one replica at a time, in steps that may each be repeated: whatever breaks off, at any statement, is
// finished by doing them all again. It first writes down what there is, since afterwards nobody can count it. Its end is a sealed record with the digest of the report;
// the report says of every table how much there was and how much there is, which keys were destroyed, and what stays, why and until when.
//
// Which tables have rows of tenants, and what becomes of them, is one list (tables.go); a test holds it against the schema.
package offboard
