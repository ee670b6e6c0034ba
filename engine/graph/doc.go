// Package graph is a leaf: the intermediate representation of a model, the passes that rewrite it, and the memory plan that turns it
// into a flat list of steps.
//
// Builders (package arch) make one graph for each architecture; passes fuse and assign precisions; the engine packs the weights and
// runs the plan. A graph prints as text and is read back from it, so that every pass can be looked at and tested.
package graph
