// Package mapfile is a leaf that maps a file into memory, read-only.
//
// The file must not shrink while it is mapped: touching a page behind its new end is a fault that the process cannot recover from.
package mapfile
