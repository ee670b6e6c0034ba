package native

import (
	"github.com/sluice-project/sluice/engine/native/prefix"
)

// Forget drops what is kept of a tenant's prompts and answers: the pages of the prefix trees, in memory and on disk, those that policy lets
// tenants share among them, and the texts that tokens are guessed from. What is in use goes when it is released, and is not kept again. It
// happens before the next step; the content of places in the spill file, which is encrypted, stays until they are used again.
func (e *Engine) Forget(tenant string) {
	f := forgetRequest{tenant: tenant, spaces: map[*generator][]prefix.NamespaceID{}, texts: map[*generator][]string{}}
	e.mu.RLock()
	for _, g := range e.generators {
		for _, digest := range append([]string{""}, e.digests...) {
			own := prefix.Scope{Tenant: tenant, Adapter: digest, Model: g.info.Digest, Precision: g.info.Precision}
			shared := own
			shared.Tenant, shared.Shared = "", true
			mine := prefix.Namespace(e.key, own)
			f.spaces[g] = append(f.spaces[g], mine, prefix.Namespace(e.key, shared))
			f.texts[g] = append(f.texts[g], string(mine[:]))
		}
	}
	e.mu.RUnlock()
	e.loop.forget(f)
}

// forgetRequest is what goes of a tenant.
type forgetRequest struct {
	tenant string
	spaces map[*generator][]prefix.NamespaceID
	texts  map[*generator][]string
}

// forget drops it now if nothing is computed, else between two steps: pages are the goroutine's own.
func (l *loop) forget(f forgetRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetRequests = append(l.forgetRequests, f)
	if !l.running {
		l.drop()
	}
}

// drop forgets what is to be forgotten. The caller holds the lock, and nothing is computed.
func (l *loop) drop() {
	for _, f := range l.forgetRequests {
		for _, all := range [][]*sequence{l.active, l.queue} {
			for _, s := range all {
				s.job.forgotten = s.job.forgotten || s.job.tenant == f.tenant
			}
		}
		for g, spaces := range f.spaces {
			for _, id := range spaces {
				g.tree.Forget(id)
			}
			for _, name := range f.texts[g] {
				g.texts.Forget(name)
			}
		}
	}
	l.forgetRequests = nil
}
