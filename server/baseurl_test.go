package server

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/sluice-project/sluice/server/config"
)

// TestBaseURL: what applications are told to use is the configured address, else where the request came to, and where the management API
// has a listener of its own the business API's, on the host that the request names if it listens on every one. Whoever has come to the business API comes to it
// where he came.
func TestBaseURL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		public, listen, admin, main string
		tls                         bool
		forwarded                   string
		want                        string
	}{
		"configured":                     {public: "https://ai.bank.example/", want: "https://ai.bank.example/v1"},
		"where the request came to":      {listen: "0.0.0.0:8080", want: "http://10.1.2.3:9000/v1"},
		"the same with TLS":              {listen: "0.0.0.0:8080", tls: true, want: "https://10.1.2.3:9000/v1"},
		"behind a proxy":                 {listen: "127.0.0.1:8080", forwarded: "https", want: "https://10.1.2.3:9000/v1"},
		"own listener, every address":    {listen: ":8080", admin: ":9000", main: "http://127.0.0.1:8080", want: "http://10.1.2.3:8080/v1"},
		"own listener, every address v6": {listen: "[::]:8080", admin: ":9000", main: "https://127.0.0.1:8080", tls: true, want: "https://10.1.2.3:8080/v1"},
		"own listener, one address":      {listen: "10.9.9.9:8080", admin: ":9000", main: "http://10.9.9.9:8080", want: "http://10.9.9.9:8080/v1"},
		"own listener, configured":       {public: "https://ai", listen: ":8080", admin: ":9000", main: "http://x", want: "https://ai/v1"},
	} {
		e := &edge{parts: &parts{cfg: &config.Config{PublicURL: c.public, Listen: c.listen, AdminListen: c.admin}}, addresses: addresses{main: c.main}}
		r := &http.Request{Host: "10.1.2.3:9000", Header: http.Header{}}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-Proto", c.forwarded)
		}
		if got := e.baseURL(r); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		own := schemeOf(r) + "://10.1.2.3:9000/v1"
		if c.public != "" {
			own = c.want
		}
		if got := e.ownURL(r); got != own { // which a listener of the management API does not move
			t.Errorf("%s: the business API is at %s, want %s", name, got, own)
		}
	}
}
