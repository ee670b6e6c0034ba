// Package batch asks the requests of a file, each as its own request, when there is time for it.
//
// The file is there before the batch ([Service.Create]), or is made of requests that come with the wish for it ([Input], [Service.CreateFrom]). A batch of
// the one kind and one of the other differ in what they may ask, and in nothing else; dialects render them.
//
// A batch goes validating → in_progress → finalizing → completed. A file that cannot be understood makes it failed; one whose time is over becomes
// expired, and one that somebody ends goes through cancelling to cancelled. Both keep what was answered by then.
//
// # Lines
//
// A line is asked the way in which a client asks: [Ask] gives it to the data plane, in the name of whoever made the batch, who is looked up again for each
// line. So policies, limits, budgets, masking, records and bills are those of a request, and whoever loses a right, loses it for the lines that are left.
// Its class is batch. A line that is refused for the moment (429, 503 or 529) comes back, each time after a longer pause, until the window of the batch
// ends; any other answer is its result.
//
// # Exactly one result and one bill
//
// A result is a row named by batch and line that is inserted once and never changed; whoever comes second changes nothing. A line has one request id,
// however often it is asked, and the books take one usage for it. A process that dies between an answer and its row has the line asked again, and the
// engine works twice, for one result and one bill.
//
// One replica at a time runs a batch: it holds a lease in its row, which it prolongs. Where it dies, another one takes over when the lease has run out, and it
// itself at once when it comes back. Two that run a batch at once for a moment, since one of them was paused, do no harm by the rule above.
//
// # At rest
//
// What lines say and are told is encrypted: the input in its file, results and metadata under a data key of the batch, the results at the end in
// files of their own. The key is stored under a wrapping key of the installation and takes part in its rotations.
//
// A [Service] is safe for concurrent use. Errors are those of package fault.
package batch
