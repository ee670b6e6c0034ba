// Package signin is a façade: it signs people in at OpenID providers over HTTP.
//
// It speaks the authorization code flow of OpenID Connect Core 1.0 with PKCE (RFC 7636), RP-Initiated Logout 1.0 and Back-Channel Logout 1.0. What a
// provider says is checked here: who signed it, for whom, when and in answer to what. Whose account that is and what it may do is
// governance/identity's to decide.
//
// A sign-in begins and ends in one browser: state, nonce and the PKCE verifier are keyed digests of a secret in a cookie of that browser, so nobody can
// have somebody else finish a sign-in of his, and any replica can finish what another one has begun. Each comes back once.
//
// A provider that does not answer opens nothing and stops nothing else: its description is read when somebody wants to sign in, not at the start.
//
// What comes back with a cookie of ours is recorded, with the reason of a refusal; what comes back without one is not. What a stranger can bring about is
// counted by network, so that he cannot fill the log, apart from what counts for local sign-ins.
package signin
