// Package oauth is a façade: it gives service accounts access tokens over HTTP.
//
// It speaks the client credentials grant of RFC 6749, section 4.4. A program proves who it is by its secret, in the Authorization header or in the
// form, or by an assertion that it signs (RFC 7523), and gets a token for the plane that its roles are for; an endpoint gives tokens for the planes
// that its listener serves. RFC 8414 says what there is. Who may have a token is governance/identity's to decide: this package reads requests,
// records them and words the answers, in the forms that the standards demand and not in those of either plane.
//
// A request that could be answered is recorded twice, as a sign-in is: before anything is decided, and with what became of it. What is malformed,
// and what is throttled, leaves no record, so that strangers cannot fill the log.
package oauth
