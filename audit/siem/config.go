// Package siem hands the records of an audit log to security monitoring (SIEM) outside: syslog (RFC 5424) over TLS or TCP (RFC 5425, RFC 6587),
// whose messages are OCSF JSON or CEF.
//
// Records leave in the order of the log, once they are under a checkpoint, and each at least once. Syslog has no acknowledgement, so a batch is
// confirmed by its connection: the exporter says that it has sent everything, and the receiver, when it has read to the end, closes. Only then
// the cursor of the destination moves, in the database, where the next replica finds it. What was cut off before comes again; receivers tell
// repetitions by the id and the place in the log that each message has. One replica at a time sends.
//
// A message says who did what, when, with what outcome and at what cost. It has no prompt, no answer and no digest of one.
package siem

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"time"
)

// The formats of messages.
const (
	formatOCSF = "ocsf"
	formatCEF  = "cef"
)

const (
	defaultTimeout = 30 * time.Second
	// defaultBytes fits what rsyslog and syslog-ng take without being told.
	defaultBytes, leastBytes, mostBytes = 8000, 2048, 1 << 16
)

// Config is one destination.
type Config struct {
	// Name of the destination, under which it is remembered how far it has come.
	Name string
	// Address is tls://host:port, or tcp://host:port of a relay on this machine.
	Address string
	// Format is ocsf or cef; "" = ocsf.
	Format string
	// CAFile holds the certificates that the receiver's is checked against; "": those of the system. ServerName is the name in it; "": that of
	// the address. CertFile and KeyFile are what the receiver checks, if it does. All are read again for every connection.
	CAFile, CertFile, KeyFile string
	ServerName                string
	// Host names the sender in the messages; "": the name of the machine.
	Host string
	// History begins with the oldest record that is kept; else a new destination begins with the next one.
	History bool
	// MessageBytes bounds one message; 0 = 8000. Values are cut until it fits.
	MessageBytes int
	// Timeout is how long the receiver may take to accept a message, or to close; 0 = 30s.
	Timeout time.Duration
}

// Validate reports everything that is wrong with the destinations.
func Validate(all []Config) error {
	var errs []error
	seen := map[string]bool{}
	for i, c := range all {
		wrong := func(key, why string) { errs = append(errs, fmt.Errorf("siem[%d].%s: %s", i, key, why)) }
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`).MatchString(c.Name) || seen[c.Name] {
			wrong("name", "must be set, only once, of small letters, digits, hyphens and underscores, 32 at most")
		}
		seen[c.Name] = true
		if why := wrongAddress(c.Address); why != "" {
			wrong("address", why)
		}
		if c.Format != "" && c.Format != formatOCSF && c.Format != formatCEF {
			wrong("format", "must be ocsf or cef")
		}
		if (c.CertFile == "") != (c.KeyFile == "") {
			wrong("cert_file", "set both cert_file and key_file, or neither")
		}
		if c.MessageBytes != 0 && (c.MessageBytes < leastBytes || c.MessageBytes > mostBytes) {
			wrong("message_bytes", fmt.Sprintf("must lie between %d and %d", leastBytes, mostBytes))
		}
		if c.Timeout < 0 {
			wrong("timeout", "must not be negative")
		}
	}
	return errors.Join(errs...)
}

// wrongAddress says why an address cannot be one, "" if it can. Without TLS nothing leaves this machine.
func wrongAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "tls" && u.Scheme != "tcp" || u.Hostname() == "" || u.Port() == "" || address != u.Scheme+"://"+u.Host {
		return "must look like tls://siem.example:6514 or tcp://127.0.0.1:514"
	}
	if u.Scheme == "tcp" && !thisMachine(u.Hostname()) {
		return "must be tls://, or the address of a relay on this machine: audit records do not travel in the clear"
	}
	return ""
}

func thisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// place returns the address without its scheme, and whether TLS is spoken there.
func (c Config) place() (address string, secure bool) {
	u, err := url.Parse(c.Address)
	if err != nil {
		return "", true
	}
	return net.JoinHostPort(u.Hostname(), u.Port()), u.Scheme != "tcp"
}
