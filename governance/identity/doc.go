// Package identity is a façade: who is calling. It holds tenants, users, service accounts and API keys, and turns a credential into a [Principal].
//
// The request path runs no SQL: every replica keeps an immutable snapshot behind an atomic pointer. Each write bumps a counter
// row in its own transaction; replicas read the counter every [Config.Poll] and reload when it moved, so a revocation is seen
// everywhere within twice that time. Without a snapshot, or with one that could not be checked for [Config.MaxStale], every
// credential is refused.
//
// An account can have a second factor beside the password. Each is a row with a kind, of which there is one, TOTP. Whoever has one shows it at the
// sign-in, and sign-ins that did not are refused.
//
// A service account is a program's. It proves who it is by a secret or by signing an assertion with a key of its own, and gets an access token for the
// one plane that its roles are for. An invitation is an account that waits for its person to choose a password.
//
// There are two planes. API keys open the data plane, and the admin plane for reading where their scopes say so; session tokens of people open
// the admin plane only; access tokens of service accounts open the plane that they were made for.
package identity
