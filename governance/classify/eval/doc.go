// Package eval measures a detector of sensitive values on a corpus: what it finds, what it leaves, and what it takes for sensitive
// that is not.
//
// A value counts as found only if no character of it survives. Values and findings of classes that the default policy does not mask
// are counted for themselves and left out of the overall figures. All intervals are Wilson's, at 95 %.
package eval
