package prefix

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// NamespaceID names what may share pages.
type NamespaceID [sha256.Size]byte

// Scope is what a namespace is derived from: all that keys and values depend on besides tokens, and whose they are.
type Scope struct {
	Tenant    string // or, of a shared namespace, the name that policy gives it
	Adapter   string // digest of the adapter, "" without
	Model     string // digest of the model
	Precision string // the precision plan
	Shared    bool   // by policy, between tenants
}

// Namespace returns the namespace of a scope under the server's secret key. It panics without a key.
func Namespace(key []byte, s Scope) NamespaceID {
	if len(key) == 0 {
		panic("prefix: a namespace needs the server's key")
	}
	mac := hmac.New(sha256.New, key)
	text := []byte("sluice prefix namespace 1\x00") // apart from whatever else the key may be used for
	for _, part := range []string{s.Tenant, s.Adapter, s.Model, s.Precision} {
		text = binary.LittleEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	if s.Shared {
		text = append(text, 1)
	} else {
		text = append(text, 0)
	}
	mac.Write(text)
	return NamespaceID(mac.Sum(nil))
}
