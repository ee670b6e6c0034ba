// Package worker runs an engine as a process of its own: [Server] exposes any engine.Engine to one or several gateways, and [Client] is an
// engine.Engine that asks one.
//
// Both ends are of this product and trust one another; who may be an end is decided by the transport. A unix socket lies in a directory that only
// its owner enters, and on Linux each end looks at the account of the other. Over TCP both ends show a certificate (TLS 1.3), and each accepts the
// one certificate, or those of the one authority, that its configuration names. There is no plain TCP.
//
// # Protocol
//
// HTTP/1.1 with one connection for each call that runs, so that nobody who reads slowly holds others up, and who leaves is seen at once: his
// connection closes. Paths begin with /sluice-engine/v1/; another version is another path.
//
//	GET  health            state, models and load: JSON
//	POST prepare           {"generate"|"embed"|"score": work} → {"prompt": id, "tokens": …}: JSON
//	POST generate          {"prompt": id} or {"generate": work} → frames E…E, or E…F
//	POST embed, score      the same → one frame R, or F
//	POST forget            {"tenant": …}: drops what is kept of a tenant's prompts
//	GET, POST adapters     lists and loads adapters; DELETE adapters/{id} unloads one
//	GET  metrics           those of the worker's process, as Prometheus reads them
//
// Work is JSON (wire.go), refused where it has a field that this release does not know. A frame is a letter, the length of its body as a uvarint,
// and the body: an event (E) or a result (R) in the binary form of event.go, or a refusal (F). A refusal carries code, arguments, field and
// retry time of a fault, and no cause: no text of a request reaches an error. Where it says that nothing was reached the request may go elsewhere.
// The server flushes after each event, but not where the event says that there is more, nor behind the last.
//
// A prompt that was prepared stays with the worker until it is run, or forgotten, or for a minute; [Client] sends its id and not its texts again.
// One that the worker does not hold any more (410) is sent whole. The memory for them is bounded, and the oldest go first.
//
// Hooks do not cross: a request with one is refused, and no model of a worker says that it honours them. Watermarks do not cross either: the
// answer has none, and its marking says so.
//
// # States
//
// A worker is starting while it loads, warming while the engine runs for the first time, ready, draining after it was asked to end, or failed. Only
// a ready one takes work. [Client] looks once a second. While the worker cannot be reached, loads or has failed it has no models; what runs goes on,
// unless nothing has been heard of the worker for quarter of a minute: then those calls end with CodeEngineUnavailable.
package worker
