// Package reconcile compares the audit log with itself and with the books of billing. It notes what does not agree, mends what can be mended,
// and knows which usage an audit record stands for.
//
// What it compares. Every admitted request has one outcome record, and every successful outcome has an admitted record. Every outcome that says
// usage has one entry in the books, with the same tenant, tokens and cost; every entry has such an outcome. Each run looks at the last 48 hours,
// and at every older hour for which a record was sealed since the last run. It compares the sums of an hour and a tenant first, and single
// entries only where the sums differ.
//
// What it finds. A disagreement is a finding: a row of audit_findings, named by its kind and what it is about.
//
//	unfinished  a request was admitted and has no outcome, though its time is over
//	unadmitted  a request was answered and has no admitted record
//	unbooked    the ledger refused the usage of a record
//	missing     the books lack what a record says was used
//	surplus     the books hold what no record says
//	sums        an hour of a tenant sums up differently in the books and in the records
//
// A finding opens in the first run that meets it. It closes in the first run that no longer does, or when it is mended; then it names the record
// of the repair. One that shows again is opened again and keeps its first time. Closed findings stay.
//
// What it mends. An unfinished request gets a failed outcome with the code outcome_lost, which bills what the admitted record says is billed by then.
// An unbooked usage is offered to the ledger again, and an audit.repair record says so. All other kinds need a person.
//
// What it never does. It changes and removes no record and no entry of the books. It ends no request whose outcome may still be under way: it waits for
// the deadline, and then until the replica that admitted the request has shipped its log up to there. Only a replica that was silent for a week is given
// up. It reports nothing about hours whose records were pruned.
//
// Concurrency. Of all replicas and commands, one at a time compares: the holder of the lease "reconcile". It prolongs the lease as it goes, and takes it
// again in the transaction that claims a finding, so a holder that slept and lost the lease mends nothing. A [Reconciler] is safe for concurrent use.
//
// Faults. A run may end after any write, whether or not the write took effect. The next run goes on from the database: it makes up neither a second
// outcome nor a second billing. Errors are those of the database and of the log; [Reconciler.Run] logs them and tries again a minute later.
package reconcile
