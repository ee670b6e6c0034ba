package worker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// identity is a certificate with its key.
type identity struct {
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
	file, own string // PEM of the certificate and of the key
}

// issue makes a certificate for a name, signed by an authority, or by itself if that is nil.
func issue(t *testing.T, name string, by *identity, ends time.Time) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: ends,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	if name == "authority" {
		made.IsCA, made.KeyUsage, made.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	}
	parent, signer := made, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, made, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	id := &identity{key: key, file: filepath.Join(t.TempDir(), "cert.pem"), own: filepath.Join(t.TempDir(), "key.pem")}
	if id.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{id.file: {Type: "CERTIFICATE", Bytes: der}, id.own: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

func files(own, peer *identity) TLS {
	return TLS{CertFile: own.file, KeyFile: own.own, PeerFile: peer.file}
}

// TestMutualTLS: each end accepts the certificate that it was told, or those of the authority that it was told, and no other.
func TestMutualTLS(t *testing.T) {
	later := time.Now().Add(time.Hour)
	authority, other := issue(t, "authority", nil, later), issue(t, "authority", nil, later)
	worker, gateway := issue(t, "worker", authority, later), issue(t, "gateway", authority, later)
	pinned, stranger := issue(t, "worker", nil, later), issue(t, "worker", nil, later)
	ofOther := issue(t, "gateway", other, later)
	past := time.Now().Add(-time.Hour)
	lateWorker, lateGateway := issue(t, "worker", authority, past), issue(t, "gateway", authority, past)
	pinnedGateway := issue(t, "gateway", nil, later)
	for _, c := range []struct {
		name           string
		server, client TLS
		serverName     string
		ok             bool
	}{
		{"one authority", files(worker, authority), files(gateway, authority), "worker", true},
		{"certificates that are named themselves", files(pinned, pinnedGateway), files(pinnedGateway, pinned), "worker", true},
		{"a client of another authority", files(worker, authority), files(ofOther, authority), "worker", false},
		{"a client that is not the named one", files(pinned, pinnedGateway), files(gateway, pinned), "worker", false},
		{"a server of another authority", files(worker, authority), files(gateway, other), "worker", false},
		{"a server that is not the named one", files(stranger, pinnedGateway), files(pinnedGateway, pinned), "worker", false},
		{"a server of another name", files(worker, authority), files(gateway, authority), "elsewhere", false},
		{"an expired server", files(lateWorker, authority), files(gateway, authority), "worker", false},
		{"an expired client", files(worker, authority), files(lateGateway, authority), "worker", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enginetest.NewScripted(nil)
			r := serveAt(t, Backend{Engine: s}, Endpoint{Address: "127.0.0.1:0", TLS: c.server}, time.Second)
			e := connect(t, Config{Endpoint: Endpoint{Address: r.at.Address, TLS: c.client}, ServerName: c.serverName})
			text, err := answer(t.Context(), e, question("x"))
			if c.ok && (text != "x" || err != nil) {
				t.Errorf("%q, %v", text, err)
			}
			if !c.ok && (!fault.Is(err, fault.CodeEngineUnavailable) || len(s.Requests()) > 0) {
				t.Errorf("%q, %v", text, err)
			}
			if _, err := e.Models(t.Context()); c.ok != (err == nil) {
				t.Errorf("models: %v", err)
			}
		})
	}
	t.Run("plain TCP", func(t *testing.T) {
		r := serveAt(t, Backend{Engine: enginetest.NewScripted(nil)}, Endpoint{Address: "127.0.0.1:0", TLS: files(worker, authority)}, time.Second)
		conn, err := net.Dial("tcp", r.at.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("GET " + prefix + "health HTTP/1.1\r\nHost: w\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		n, _ := conn.Read(got)
		if strings.Contains(string(got[:n]), "200") {
			t.Errorf("it answers %q", got[:n])
		}
	})
	t.Run("renewed", func(t *testing.T) { // without a restart
		used := *gateway
		used.file, used.own = filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "k")
		put := func(id *identity) {
			for from, to := range map[string]string{id.file: used.file, id.own: used.own} {
				raw, err := os.ReadFile(from)
				if err == nil {
					err = os.WriteFile(to, raw, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		put(lateGateway)
		r := serveAt(t, Backend{Engine: enginetest.NewScripted(nil)}, Endpoint{Address: "127.0.0.1:0", TLS: files(worker, authority)}, time.Second)
		e := connect(t, Config{Endpoint: Endpoint{Address: r.at.Address, TLS: files(&used, authority)}, ServerName: "worker"})
		if _, err := answer(t.Context(), e, question("x")); !fault.Is(err, fault.CodeEngineUnavailable) {
			t.Errorf("expired: %v", err)
		}
		put(gateway)
		if text, err := answer(t.Context(), e, question("x")); text != "x" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// TestEndpoints: what is not safe by its form is refused before anything is opened.
func TestEndpoints(t *testing.T) {
	three := TLS{CertFile: "c", KeyFile: "k", PeerFile: "p"}
	for _, c := range []struct {
		at    Endpoint
		wrong string
	}{
		{Endpoint{Address: "unix:/run/e.sock"}, ""},
		{Endpoint{Address: "h:1", TLS: three}, ""},
		{Endpoint{Address: "h:1"}, "both ends of a TCP connection show a certificate"},
		{Endpoint{Address: "h:1", TLS: TLS{CertFile: "c", KeyFile: "k"}}, "set all three"},
		{Endpoint{Address: "unix:e.sock"}, "absolute"},
		{Endpoint{Address: "unix:/run/e.sock", TLS: three}, "has no TLS"},
		{Endpoint{}, "unix:/path or host:port"},
		{Endpoint{Address: "http://h:1"}, "unix:/path or host:port"},
	} {
		err := c.at.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v", c.at, err)
		}
		if err == nil {
			continue
		}
		if _, err := Listen(t.Context(), c.at); err == nil {
			t.Errorf("%+v: it listens", c.at)
		}
		if _, err := New(Config{Endpoint: c.at}); err == nil {
			t.Errorf("%+v: a client was made", c.at)
		}
	}
	if err := (Config{Endpoint: Endpoint{Address: "unix:/s"}, Models: []string{""}}).Validate(); err == nil {
		t.Error("a model without a name")
	}
	if err := (Config{Endpoint: Endpoint{Address: "unix:/s"}, ConnectTimeout: -1}).Validate(); err == nil {
		t.Error("a negative timeout")
	}
}

// TestSocket: the socket and its directory are closed to others; a living process keeps its socket, a dead one loses it.
func TestSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "engine")
	path := filepath.Join(dir, "e.sock")
	l, err := Listen(t.Context(), Endpoint{Address: unixPrefix + path})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", at, info.Mode(), err, want)
		}
	}
	if _, err := Listen(t.Context(), Endpoint{Address: unixPrefix + path}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second process: %v", err)
	}
	l.(ownAccount).Listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = Listen(t.Context(), Endpoint{Address: unixPrefix + path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if runtime.GOOS == "linux" {
		accepted := make(chan net.Conn, 1)
		go func() {
			if c, err := l.Accept(); err == nil {
				accepted <- c
			}
		}()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		theirs := <-accepted
		for _, end := range []net.Conn{c, theirs} {
			if err := checkPeer(end, os.Geteuid()); err != nil {
				t.Errorf("our own account: %v", err)
			}
			_ = end.Close()
		}
		tcp, far := net.Pipe()
		if checkPeer(tcp, os.Geteuid()) == nil {
			t.Error("what is no socket has no account")
		}
		_, _ = tcp.Close(), far.Close()
	}
	for _, c := range []struct {
		peer uint32
		own  int
		ok   bool
	}{{1000, 1000, true}, {0, 1000, true}, {0, 0, true}, {1001, 1000, false}, {1000, 0, false}, {65534, 1000, false}} {
		if err := checkAccount(c.peer, c.own); (err == nil) != c.ok {
			t.Errorf("account %d at a process of %d: %v", c.peer, c.own, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), Endpoint{Address: unixPrefix + filepath.Join(dir, "f.sock")}); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("in a directory that is open to others: %v", err)
	}
}
