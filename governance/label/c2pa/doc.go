// Package c2pa is a leaf over label: writes content credentials, and checks those of any signer.
//
// Content credentials are a manifest of the Coalition for Content Provenance and Authenticity (C2PA, specification 2.x): a signed statement in a file about what was
// done to it, bound to the bytes of the file by a hash. A label says that a machine made the content and covers none of it; a manifest covers every byte, and
// whoever has the certificate of the installation can check it with any program that knows the standard.
//
// # What is written
//
// A manifest says what the signer knows: that it opened a file and put a label on it (c2pa.actions.v2: c2pa.opened, c2pa.edited.metadata, by the producer of the installation). It does
// not say how the content came about, and never that a model made it: whoever has a file labelled chose what is in it. That the file is generated is what the label says, for those that read
// it: [LabelAssertion] has its seven fields, as an assertion of the signer where the label was made here, else as a gathered one, for which a signer does not answer. c2pa.hash.data is the SHA-256 of the whole file except the manifests. Nothing else
// is in it: no tenant, no user, no prompt, no title, no time.
//
// A manifest that is in the file already is never lost: it stays in the store as it is, and the new one names it as its parent (c2pa.ingredient.v3) with what a check of it said.
// The hash of a file leaves the store out. So a list of references binds every manifest in it, also those that the parent does not name, and a store with anything else in it is not kept.
//
// # Keys
//
// An [Authority] derives its keys from the master key: a certificate authority for as long as there is an installation, and a signer for each calendar year, of which a
// generation can be raised at any time. So nothing is stored, every replica and the command line have the same certificates, byte for byte, and what an earlier signer has signed
// stays valid, because its certificate lies in the manifest and leads to the same authority. All are Ed25519. There is no time stamp of others: an installation may have no network.
//
// # What is checked
//
// [Check] verifies the signature of the active manifest, the hash of every assertion that it names, the hash of the file, and that
// nothing in the store is bound by nothing. It does not ask the network: no revocation, no list of
// trusted signers, no time stamps. Manifests are hostile input: their sizes, depths and numbers are bounded, and what cannot be read is said.
//
// All functions are safe for concurrent use.
package c2pa
