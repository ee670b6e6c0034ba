package siem

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// maxGreeting bounds what is read of a receiver, which has nothing to say.
const maxGreeting = 64 << 10

// deliver sends the messages over a connection of their own and returns nil when the receiver has read all of them: it closes the connection
// after we have closed our half of it, and its machine has acknowledged every byte. Anything else is an error, and the messages go again.
func (d *destination) deliver(ctx context.Context, messages [][]byte) error {
	conn, below, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()                                           //nolint:errcheck // what counts has been read by then
	defer context.AfterFunc(ctx, func() { _ = below.Close() })() // a stop does not wait for a slow receiver
	out := bufio.NewWriterSize(patient{conn, d.timeout}, 32<<10)
	for _, m := range messages {
		if _, err = out.Write(frame(m)); err != nil {
			break
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("send: %w", errors.Join(err, lastWord(conn)))
	}
	return d.confirm(conn, below)
}

// lastWord returns what a receiver has said before it closed, such as that it wants a certificate, if that is there.
func lastWord(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return nil //nolint:nilerr // it only explains another error
	}
	_, err := io.CopyN(io.Discard, conn, maxGreeting)
	if said := (*net.OpError)(nil); errors.As(err, &said) && said.Op == "remote error" {
		return said
	}
	return nil
}

// confirm closes our half and waits for the receiver to close its own. A receiver that went away before it had read everything closes, too; what
// it had not read was refused by its machine then, or is not acknowledged.
func (d *destination) confirm(conn net.Conn, below *net.TCPConn) error {
	if secure, ok := conn.(*tls.Conn); ok {
		if err := secure.CloseWrite(); err != nil {
			return fmt.Errorf("end the TLS session: %w", err)
		}
	}
	if err := below.CloseWrite(); err != nil {
		return fmt.Errorf("end the connection: %w", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(d.timeout)); err != nil {
		return fmt.Errorf("wait for the receiver: %w", err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(conn, maxGreeting))
	if err == nil && n < maxGreeting { // the end of the session is no end of the connection, which tells whether all was read
		n, err = io.Copy(io.Discard, io.LimitReader(below, maxGreeting))
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the receiver has not read to the end in time")
	case err != nil:
		return fmt.Errorf("the receiver has not read to the end: %w", err)
	case n == maxGreeting:
		return errors.New("the receiver talks; is it one of syslog?")
	}
	return acknowledged(below)
}

// patient gives every write a time of its own, so that a slow receiver may take as long as it goes on reading.
type patient struct {
	net.Conn

	timeout time.Duration
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// dial connects; below is the connection that carries TLS, or the same. The files of certificates are read each time, so that their renewal is
// taken without a restart.
func (d *destination) dial(ctx context.Context) (conn net.Conn, below *net.TCPConn, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	address, secure := d.cfg.place()
	var dialer net.Dialer
	plain, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	below, ok := plain.(*net.TCPConn)
	if !ok {
		return nil, nil, errors.Join(errors.New("connect: not over TCP"), plain.Close())
	}
	if !secure {
		return below, below, nil
	}
	cfg, err := d.tls(address)
	if err != nil {
		return nil, nil, errors.Join(err, below.Close())
	}
	c := tls.Client(below, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("TLS: %w", err), below.Close())
	}
	return c, below, nil
}

func (d *destination) tls(address string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if d.cfg.ServerName != "" {
		cfg.ServerName = d.cfg.ServerName
	}
	if d.cfg.CAFile != "" {
		pem, err := os.ReadFile(d.cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate", d.cfg.CAFile)
		}
	}
	if d.cfg.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(d.cfg.CertFile, d.cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file, key_file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
