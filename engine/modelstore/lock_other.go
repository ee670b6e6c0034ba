//go:build !unix

package modelstore

import "context"

// lock does nothing here: two processes that pull the same artefact at once may disturb each other, and the digest then refuses.
func lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }
