// Package profile says how engines speak, as data: one YAML file for each system, embedded in the program.
//
// A profile names paths, health checks, names of parameters, the frames of streams, errors, how a request is abandoned and an instance drained, the
// page of metrics and what its series mean, where the tokenizer comes from, how the version is asked for, adapters, quirks, and the capability contract
// that the engine's documents claim. A profile extends another one: mappings are merged, everything else is replaced, and null takes away what was
// inherited. Each fact names its source, and each source its address, version and date.
//
// What is not known is left out, and means "not known": nothing is invented. [Basis] says what a profile as a whole rests on.
//
// A new engine is one file. [Parse] reads it strictly, [Lint] finds what is wrong with it, and engine/simulate, engine/conform and engine/remote work by it
// without a line of code. Profiles are immutable once they are read; everything here is safe for concurrent use.
package profile
