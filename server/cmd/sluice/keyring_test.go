package main

import "testing"

// TestKeyringOnTheCommandLine: a rotation is begun, refused while it runs, and shown.
func TestKeyringOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	s.run("keyring", "status").wants(t, exitOK, "Wrapping key 0 is active, and no rotation runs", "EPOCH", "vault_keys", "content_keys", "documents")
	s.run("keyring", "rotate").wants(t, exitOK, "Wrapping key 1 is active")
	s.run("keyring", "rotate").wants(t, exitFailed, "conflict", "the rotation to wrapping key 1 has not ended")
	s.run("keyring", "status").wants(t, exitOK, "Wrapping key 1 is active", "retiring")
}
