package workflows

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"go.temporal.io/sdk/client"
)

// Config says where Temporal is and what is scheduled.
type Config struct {
	// Address of the Temporal front end, host:port.
	Address   string `koanf:"address"`
	Namespace string `koanf:"namespace"`  // default "default"
	TaskQueue string `koanf:"task_queue"` // default "sluice"
	// TLS to the front end: a CA to trust, and a client certificate for mutual TLS. All empty means plain text.
	TLSCA         string `koanf:"tls_ca"`
	TLSCert       string `koanf:"tls_cert"`
	TLSKey        string `koanf:"tls_key"`
	TLSServerName string `koanf:"tls_server_name"`
	// SecondPerson demands that a rollout is approved by somebody else than the person who started it.
	SecondPerson bool `koanf:"second_person"`
	// Capacity is the peak/valley schedule; a zero plan means none. A plan set by an administrator goes before it.
	Capacity Plan `koanf:"capacity"`
}

func (c Config) withDefaults() Config {
	c.Namespace = or(c.Namespace, "default")
	c.TaskQueue = or(c.TaskQueue, "sluice")
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, errors.New("address: must be host:port"))
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("tls_cert, tls_key: set both or neither"))
	}
	if !c.Capacity.IsZero() {
		if err := c.Capacity.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("capacity: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c Config) connection() (client.ConnectionOptions, error) {
	var out client.ConnectionOptions
	if c.TLSCA == "" && c.TLSCert == "" && c.TLSServerName == "" {
		return out, nil
	}
	out.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSServerName}
	if c.TLSCA != "" {
		pem, err := os.ReadFile(c.TLSCA)
		if err != nil {
			return out, fmt.Errorf("workflows.tls_ca: %w", err)
		}
		out.TLS.RootCAs = x509.NewCertPool()
		if !out.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return out, fmt.Errorf("workflows.tls_ca: %s holds no certificate in PEM form", c.TLSCA)
		}
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return out, fmt.Errorf("workflows.tls_cert: %w", err)
		}
		out.TLS.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
