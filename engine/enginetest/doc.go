// Package enginetest belongs to the contract folder engine: [Run] is the suite that every engine passes, [Scripted] is an
// engine for tests that does as it is told and remembers what it was given, and [Upstream] speaks the OpenAI dialect in front of
// any engine, so that the remote engine and end-to-end tests have a server to talk to. [Ask] prepares and runs a request.
package enginetest
