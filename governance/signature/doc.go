// Package signature signs results, and checks signed results with nothing but public keys.
//
// # What is signed
//
// A [Statement] says that an installation gave an answer: to which request, when, by which model, under which policy, with which label, and with which
// receipt in the audit log. It holds digests of the answer, never its text, so whoever keeps a signature keeps no content with it. Each alternative has up to four: of
// its text, its reasoning, its refusal and its tool calls, whose arguments may have other spaces between their tokens. Digests are over the exact bytes that left, the visible label included: one changed byte, a
// trimmed space too, and the text is another one.
//
// # Form
//
// A signature is a JSON Web Signature in compact form (RFC 7515): header, payload and signature in base64url, with dots between. The payload is the
// statement. The header names the algorithm and the key: "EdDSA" is Ed25519 (RFC 8037) with digests by SHA-256. "SM2SM3" is SM2 over SM3 (GB/T 32918.2) with the
// identity of GB/T 35276, the pair as 64 bytes, and digests by SM3; no registry names it. Both are deterministic.
//
// Whoever asks for it gets a message of the Cryptographic Message Syntax (RFC 5652) in place of it, DER in base64, with the same statement inside and a
// certificate that the key has signed for itself: Ed25519 by RFC 8419, SM2 with the object identifiers of GB/T 35275. [Verify] takes both forms.
//
// # What it proves
//
// That who holds the private key made the statement. The time is what that installation said; where it matters, its audit log has the receipt, sealed in a
// tree that others witness. A key that was revoked proves nothing by itself any more: see [Key].
//
// All functions are safe for concurrent use.
package signature
