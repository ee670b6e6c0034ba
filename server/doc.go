// Package server is a façade and the only place that wires: it builds the parts of an installation in dependency order (build.go), sets a
// new one up (setup.go), serves it and drains it (run.go), and gives it its HTTP face (edge.go). The commands of cmd/sluice call
// [Run] and nothing else of it.
package server
