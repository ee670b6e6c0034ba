// Package unified is the contract of the metrics and events by which engines are compared: names, units, meaning and kind, whatever an engine calls
// them on its own page.
//
// [Metrics] is the list. A profile says which series of an engine's page is which metric, with the factor between its unit and ours ([Map]). [Read] takes
// a page and returns [Values]. The promise: a metric that the page does not have is not in Values. It is "not reported", and nothing here turns that
// into a zero. A series that is there with the value 0 is a value of 0.
//
// It is a leaf: it knows no engine and asks none.
package unified
