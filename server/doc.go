// Package server is a façade and the only place that wires: it builds the parts of an installation in dependency order (build.go), sets a
// new one up (setup.go), serves it and drains it (run.go), and gives it its HTTP face (edge.go).
//
// The commands of cmd/sluice call [Run], or a function that works on an installation beside a running server: [Verify], [Reconcile], [Export], [Prune],
// [Hold], [Erase] and their like open what they need of it, record what they do as an act of whoever started the command, and close it again.
// [Diagnose] and [CheckModels] say what an installation lacks.
package server
