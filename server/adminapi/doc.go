// Package adminapi is the management API under /api/v1: everything administrators, compliance officers, the console and the command
// line do. openapi.yaml is its source; api.gen.go is generated from it (make generate) and a test holds routes and document
// together.
//
// One chain serves every operation, in this order: find the operation of the document, authenticate the session, check the
// permission the document names in the tenant the request names, read the body, validate the request against the document, record the act in
// the audit log before and after, then the handler. Where the body may name the tenant, it is read before the permission is checked. The bytes
// of bodies are bounded together with those of the other plane. A route that the document does not know is refused. Errors are RFC 9457
// problem documents. Operations of strangers (sign-in, renewal, sign-out) ask no permission, take small bodies and leave no record where
// they change nothing.
package adminapi
