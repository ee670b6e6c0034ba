// Package billing is a façade: it prices requests, keeps them inside their budgets and reports what was used.
//
// # Reserve, settle, record
//
// [Ledger.Reserve] sets the worst case of a request aside before the engine is asked, [Reservation.Settle] keeps what was used and
// gives the difference back, and [Ledger.RecordUsage] makes it permanent inside the transaction that ships the audit record, so
// that audit and ledger cannot disagree.
//
// # Leases
//
// Budgets hold across replicas without SQL on the request path. A replica leases part of what a budget has left in a short
// transaction, and requests reserve from the lease in memory. At any time, for every budget and period,
//
//	spent + Σ leases ≤ limit
//
// holds in the database: taking a lease checks it under a lock, and recording usage moves its cost from the lease to the spent
// sum in one transaction. A lease covers, at every instant, what its owner could still hand out, has reserved, and has settled
// but not yet recorded. All changes of a lease are differences, so an owner never has to know the exact amount in the database.
//
// A crashed owner stops renewing. If it restarts on the same node before its leases expire, it records the usage found in the
// audit log against its old leases, exactly. Otherwise the leases expire and return; only usage still unshipped at that time can
// then exceed a budget, by at most the expired leases.
//
// # Freshness
//
// Every replica keeps price books and budgets in a snapshot, and looks at a change counter every [Config.Poll]. It refuses with
// CodeBillingUnavailable when it could not look for longer than [Config.MaxStale].
//
// # Money
//
// [Money] is a whole number of 10⁻⁹ currency unit. An installation bills in one currency. Nothing is rounded.
package billing
