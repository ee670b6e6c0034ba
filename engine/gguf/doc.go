// Package gguf is a leaf that reads and writes GGUF model files: typed metadata and tensors in their stored block formats.
//
// [Open] maps a file read-only and checks everything it will ever rely on (magic, version, every length, every tensor's place in
// the file) before it returns, so that the accessors cannot run out of bounds. Files come from outside: a truncated, corrupt or
// hostile file gives an error that names the cause and the remedy, never a panic, in time and memory proportional to the bytes the
// file really has, whatever its header claims. Metadata arrays stay in the map until they are asked for.
//
// [Tensor.Row] dequantises any supported type with the exact arithmetic of the format; [Tensor.Blocks] hands out the integers and
// scales of the types whose blocks have 32 elements under one scale and one offset, for kernels that compute on integers;
// [Tensor.Raw] gives a row's bytes as stored, and [KBlock] and [Q6KBlock] take the super-blocks of the K formats apart without
// rounding anything.
//
// [Writer] writes a file, streaming and under its final name only when it is whole; [Quantize] is the way from float32 into the
// formats, with the rounding of the format's reference.
//
// A file must not shrink while it is open: on a memory map that is a fault the process cannot recover from. Callers copy what
// they need and close the file.
package gguf
