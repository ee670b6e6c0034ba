// Package alerts decides what of the installation people are told about. It is a leaf but for the notifier's values and those of the concerns.
//
// A [Watcher] looks at states at regular times and raises an alert for as long as each lasts. A state that concerns the whole installation is
// looked at by one replica at a time; a state of a replica carries the replica's name. A state that cannot be read stays as it was: that the
// database is away is told by what fails because of it. What happens at one moment, such as a rollout that goes back, is told by who does it,
// with one of the functions that return an alert.
//
// Alerts name tenants, models, ids and figures. They hold no text of callers and no words that a person wrote as a reason.
package alerts
