package worker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// TLS names the files by which the two ends of a TCP connection know each other. They are read at every handshake, so renewed ones need no restart.
type TLS struct {
	// CertFile and KeyFile are this end's certificate with its key.
	CertFile string `koanf:"cert_file"`
	KeyFile  string `koanf:"key_file"`
	// PeerFile holds the certificate of the other end, or of the one authority that issues it.
	PeerFile string `koanf:"peer_file"`
}

// Endpoint is where a server listens.
type Endpoint struct {
	// Address is unix:/path of a socket, or host:port.
	Address string `koanf:"address"`
	TLS     `koanf:",squash"`
}

// Validate reports what is wrong with the endpoint.
func (e Endpoint) Validate() error { return checkAddress(e.Address, e.TLS) }

func (t TLS) set() int {
	n := 0
	for _, s := range []string{t.CertFile, t.KeyFile, t.PeerFile} {
		if s != "" {
			n++
		}
	}
	return n
}

const unixPrefix = "unix:"

// checkAddress reports what is wrong with an address and the files that go with it.
func checkAddress(address string, t TLS) error {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		if !filepath.IsAbs(path) {
			return errors.New("address: a socket needs an absolute path, such as unix:/run/sluice/engine.sock")
		}
		if t.set() != 0 {
			return errors.New("cert_file, key_file and peer_file: a socket has no TLS; leave them out")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return errors.New("address: must be unix:/path or host:port")
	}
	if t.set() != 3 {
		return errors.New("cert_file, key_file and peer_file: both ends of a TCP connection show a certificate; set all three, or use a unix socket")
	}
	return nil
}

// pool reads the certificates of a file.
func pool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read peer_file: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read peer_file: %s holds no PEM certificate", file)
	}
	return p, nil
}

func (t TLS) load() (tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return cert, nil, fmt.Errorf("read cert_file and key_file: %w", err)
	}
	peers, err := pool(t.PeerFile)
	return cert, peers, err
}

// server is what the listening end demands.
func (t TLS) server() (*tls.Config, error) {
	cert, peers, err := t.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: peers,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true, // every connection shows its certificate
	}, nil
}

// client is what the asking end demands of a server of that name.
func (t TLS) client(name string) (*tls.Config, error) {
	cert, peers, err := t.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: peers, ServerName: name, NextProtos: []string{"http/1.1"},
	}, nil
}

// Listen opens the listener of a server: a unix socket of mode 0600 in a directory of mode 0700, which is made if it is missing, or TCP with TLS. It
// takes the place of a socket that a dead process left.
func Listen(ctx context.Context, at Endpoint) (net.Listener, error) {
	if err := at.Validate(); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(at.Address, unixPrefix); ok {
		return listenUnix(ctx, path)
	}
	t := at.TLS
	if _, err := t.server(); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at.Address, err)
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.server() },
	}), nil
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the directory of the socket: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the directory of the socket, %s, is open to others (mode %#o); give the socket one of its own, or run chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		var d net.Dialer
		if c, dialErr := d.DialContext(ctx, "unix", path); dialErr == nil {
			_ = c.Close()
			return nil, fmt.Errorf("listen on %s: another process listens there", path)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the socket of a process that is gone: %w", err)
		}
		l, err = lc.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close the socket to others: %w", err), l.Close())
	}
	return ownAccount{l}, nil
}

// ownAccount accepts connections of this process's account alone, and of root, who may do everything.
type ownAccount struct{ net.Listener }

// Accept implements net.Listener.
func (l ownAccount) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if checkPeer(c, os.Geteuid()) == nil {
			return c, nil
		}
		_ = c.Close()
	}
}

// checkAccount lets this process's own account through, and root.
func checkAccount(peer uint32, own int) error {
	if int(peer) != own && peer != 0 {
		return fmt.Errorf("the other end runs under account %d, and this process under %d", peer, own)
	}
	return nil
}

// dialError is why a connection could not be made: nothing was sent on it.
type dialError struct{ err error }

func (e *dialError) Error() string { return "connect to the worker: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// dialer returns what connects to a worker. Its errors are dialErrors.
func (c Config) dialer() func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
		defer cancel()
		conn, err := c.dial(ctx)
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
}

func (c Config) dial(ctx context.Context) (net.Conn, error) {
	d := &net.Dialer{KeepAlive: 10 * time.Second}
	if path, ok := strings.CutPrefix(c.Address, unixPrefix); ok {
		conn, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		if err := checkPeer(conn, os.Geteuid()); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, err
	}
	if c.ServerName != "" {
		host = c.ServerName
	}
	t, err := c.client(host)
	if err != nil {
		return nil, err
	}
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, t)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}
