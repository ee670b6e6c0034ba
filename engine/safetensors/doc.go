// Package safetensors is a leaf that reads weight files in the safetensors format: a JSON header and raw little-endian tensors, in
// one file or in several that an index names.
//
// [Open] maps the files read-only and checks the whole header before it returns: what a damaged or hostile file claims ends in an
// error, never in a read outside it, in time and memory proportional to the bytes that are there. Tensors are read row by row from
// the map, so a model needs no memory until somebody uses it. Tensors of types that this build does not read may be in a file; they
// are an error when they are asked for.
//
// A file must not shrink while it is open: on a memory map that is a fault the process cannot recover from.
package safetensors
