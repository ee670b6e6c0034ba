package siem

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// authority issues the certificates of a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string // file
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	a.key = key
	of := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, &of, &key.PublicKey, key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.ca = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// issue writes a certificate and its key.
func (a *authority) issue(name string, until time.Time) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	of := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		of.DNSNames, of.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, &of, a.cert, &key.PublicKey, a.key)
	must(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	file := of.SerialNumber.String()
	return a.write(file+".pem", "CERTIFICATE", der), a.write(file+".key", "PRIVATE KEY", secret)
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	must(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// mood is how the receiver treats one connection.
type mood struct {
	name  string
	reads int  // frames; -1: all
	then  ends // when it has read them
}

type ends int

const (
	closes  ends = iota // the connection, in order
	resets              // it, as a process that died does
	stays               // and reads nothing more
	talks               // without end
	refuses             // before anything is read, at the TLS handshake
)

// receiver is a syslog server that does as it is told. Without a mood it takes everything.
type receiver struct {
	t   *testing.T
	l   net.Listener
	tls *tls.Config

	mu    sync.Mutex
	moods []mood
	got   []string // messages
	whole int      // connections that were read to the end
}

// listen starts one. certFile "" is plain TCP; clients is a file of an authority that clients must have a certificate of.
func listen(t *testing.T, certFile, keyFile, clients string) *receiver {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	r := &receiver{t: t, l: l}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		must(t, err)
		r.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		if clients != "" {
			raw, err := os.ReadFile(clients)
			must(t, err)
			r.tls.ClientAuth, r.tls.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
			r.tls.ClientCAs.AppendCertsFromPEM(raw)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() { r.serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return r
}

func (r *receiver) address() string {
	if r.tls != nil {
		return "tls://" + r.l.Addr().String()
	}
	return "tcp://" + r.l.Addr().String()
}

// then says how the next connections are treated.
func (r *receiver) then(moods ...mood) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moods = moods
}

func (r *receiver) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got...)
}

func (r *receiver) serve(below *net.TCPConn) {
	defer below.Close()
	m := mood{reads: -1}
	r.mu.Lock()
	if len(r.moods) > 0 {
		m, r.moods = r.moods[0], r.moods[1:]
	}
	r.mu.Unlock()
	if m.then == refuses {
		_ = below.SetLinger(0)
		return
	}
	c := net.Conn(below)
	if r.tls != nil {
		c = tls.Server(below, r.tls)
	}
	for n := 0; n != m.reads; n++ {
		text, err := readFrame(c)
		if errors.Is(err, io.EOF) {
			r.mu.Lock()
			r.whole++
			r.mu.Unlock()
			if m.then == stays {
				m.then = closes
			}
			break
		}
		if err != nil {
			// Closed with something unread, a connection is reset, and the alert that says why is lost on the way.
			_ = below.CloseWrite()
			_, _ = io.Copy(io.Discard, below)
			return
		}
		r.mu.Lock()
		r.got = append(r.got, text)
		r.mu.Unlock()
	}
	switch m.then {
	case closes, refuses:
		if secure, ok := c.(*tls.Conn); ok {
			_ = secure.CloseWrite()
		}
	case resets:
		_ = below.SetLinger(0)
	case stays:
		if raw, err := below.SyscallConn(); err == nil {
			_ = raw.Read(func(uintptr) bool { return false }) // until the test closes the connection
		}
	case talks:
		for {
			if _, err := c.Write([]byte("and another thing ")); err != nil {
				return
			}
		}
	}
}

// readFrame reads one message with its length before it, and not a byte more: what is behind stays with the system, as when a process dies
// that has not read it.
func readFrame(in io.Reader) (string, error) {
	digits, one := "", make([]byte, 1)
	for {
		if _, err := io.ReadFull(in, one); err != nil {
			return "", err
		}
		if one[0] == ' ' {
			break
		}
		digits += string(one)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n <= 0 || n > 1<<20 {
		return "", fmt.Errorf("a length of %q", digits)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(in, text)
	return string(text), err
}

var sequence = regexp.MustCompile(`^<\d+>1 \S+ \S+ sluice - \S+ \[meta sequenceId="(\d+)"\] `)

// places returns the places in the log of messages.
func places(t *testing.T, messages []string) []int64 {
	t.Helper()
	out := make([]int64, len(messages))
	for i, m := range messages {
		found := sequence.FindStringSubmatch(m)
		if found == nil {
			t.Fatalf("no message of RFC 5424: %.200q", m)
		}
		n, err := strconv.ParseInt(found[1], 10, 64)
		must(t, err)
		out[i] = n - 1
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
