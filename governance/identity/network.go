package identity

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/sluice-project/sluice/internal/fault"
)

// maxNetworks is how many networks a key can be bound to.
const maxNetworks = 64

// parseNetworks reads networks and single addresses and writes them in one form: an IPv4 address that is mapped into IPv6 is one of IPv4,
// bits behind the prefix are zero, and none is there twice.
func parseNetworks(list []string) ([]netip.Prefix, error) {
	if len(list) > maxNetworks {
		return nil, invalid("networks", fault.Say("value.item_count", maxNetworks))
	}
	var out []netip.Prefix
	for _, s := range list {
		p, ok := parseNetwork(s)
		if !ok {
			return nil, invalid("networks", fault.Say("identity.network"))
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

func parseNetwork(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 { // more than all of IPv4, written as IPv6: nobody means that
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// address reads where a caller is; it is invalid for what is no address, such as a socket in the file system.
func address(source string) netip.Addr {
	a, err := netip.ParseAddr(source)
	if err != nil {
		return netip.Addr{}
	}
	return a.WithZone("").Unmap()
}

// within reports whether a caller is in one of the networks; none binds nothing.
func within(networks []netip.Prefix, from netip.Addr) bool {
	return len(networks) == 0 || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(from) })
}

// coveredBy reports whether every network of part lies in one of whole. No network means all of them.
func coveredBy(part, whole []netip.Prefix) bool {
	if len(whole) == 0 {
		return true
	}
	for _, p := range part {
		if !slices.ContainsFunc(whole, func(w netip.Prefix) bool { return w.Bits() <= p.Bits() && w.Contains(p.Addr()) }) {
			return false
		}
	}
	return len(part) > 0
}

func texts(networks []netip.Prefix) []string {
	out := make([]string, len(networks))
	for i, p := range networks {
		out[i] = p.String()
	}
	return out
}

// uses remembers when, and from where, each key was used last.
type uses struct {
	mu   sync.Mutex
	keys map[string]lastUse
}

type lastUse struct {
	at, formerAt int64 // with any secret; with the one before the last rotation
	from         netip.Addr
	written      bool
}

// network is what is kept of where a use came from: the whole address may be that of a person.
func (u lastUse) network() string {
	bits := 48
	if u.from.Is4() {
		bits = 24
	}
	p, err := u.from.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
}

func (u *uses) note(id string, former bool, from netip.Addr, now int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.keys[id]
	if former {
		last.formerAt = now
	}
	last.at, last.from, last.written = now, from, false
	u.keys[id] = last
}

func (u *uses) of(id string) lastUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.keys[id]
}

// unwritten returns the uses that the database has not seen.
func (u *uses) unwritten() map[string]lastUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := map[string]lastUse{}
	for id, last := range u.keys {
		if !last.written {
			out[id] = last
		}
	}
	return out
}

// wrote marks what the database has seen; a use that came meanwhile stays.
func (u *uses) wrote(seen map[string]lastUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, last := range seen {
		if u.keys[id] == last {
			last.written = true
			u.keys[id] = last
		}
	}
}
