// Package conform runs the cases CP-1 to CP-15 against an engine, by its profile, and writes a signed report whose text carries a grade of evidence.
//
// A case passes, fails, does not apply (the profile claims nothing that it could test), or is not reported (the engine does not tell what the case has to see).
// A case that the profile claims and that cannot be carried out fails: nothing passes for want of an answer.
//
// The grade of a report is no property of the profile: a run against a simulator is E2 at most, and E0 where the profile only assumes a dialect; a run
// against real software is E3, and E4 if its caller attests that it ran on the target hardware. A report with a failed case bears the grade for its passed
// cases only, and says so.
//
// Evidence are counts, statuses, names of members and times. No text of a model and no secret gets into a report.
package conform
