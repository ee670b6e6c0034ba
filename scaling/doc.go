// Package scaling decides how many instances a pool has. It is a contract folder: its children carry out what it decides, or play it on a virtual clock.
//
// A [Controller] takes what is known at one moment and returns a [Decision]: the target, what won, what limited it, and the numbers that it saw.
// The target is the largest of three: the floor of the calendar, what the forecast needs by the time a new instance would be ready, and what the
// load needs now. It never lies below the floor nor above the maximum.
//
// Up is quick, down is slow. Down needs every signal that the policy names, fresh; a span in which nothing wanted more; nobody that starts; and goes
// by small steps. Whoever has no data keeps what he has.
//
// A [Controller] reads no clock and draws no random number: the same inputs in the same order give the same decisions. A [Loop] asks it at the times of its clock.
package scaling
