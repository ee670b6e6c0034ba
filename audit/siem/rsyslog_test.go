package siem

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// rsyslog is a receiver as Debian has it, on TLS that demands certificates of both sides. Messages are written as they came, and as it
// understands them.
type rsyslog struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

func (r *rsyslog) start(port string, a *authority, cert, key string) (address string) {
	r.t.Helper()
	conf := filepath.Join(r.dir, "rsyslog.conf")
	must(r.t, os.WriteFile(conf, fmt.Appendf(nil, `
global(workDirectory=%[1]q maxMessageSize="64k" DefaultNetstreamDriverCAFile=%[2]q DefaultNetstreamDriverCertFile=%[3]q DefaultNetstreamDriverKeyFile=%[4]q)
module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.AuthMode="x509/name" PermittedPeer=["sluice.example"])
input(type="imtcp" address="127.0.0.1" port=%[5]q listenPortFileName=%[6]q)
template(name="raw" type="string" string="%%rawmsg%%\n")
template(name="read" type="string" string="%%syslogfacility-text%%|%%syslogseverity-text%%|%%hostname%%|%%app-name%%|%%msgid%%|%%structured-data%%|%%msg%%\n")
action(type="omfile" file=%[7]q template="raw")
action(type="omfile" file=%[8]q template="read")
`, r.dir, a.ca, cert, key, port, filepath.Join(r.dir, "port"), filepath.Join(r.dir, "raw"), filepath.Join(r.dir, "read")), 0o600))
	_ = os.Remove(filepath.Join(r.dir, "port"))
	said := &locked{w: &bytes.Buffer{}}
	r.cmd = exec.CommandContext(context.WithoutCancel(r.t.Context()), "rsyslogd", "-n", "-i", filepath.Join(r.dir, "pid"), "-f", conf)
	r.cmd.Stdout, r.cmd.Stderr = said, said
	must(r.t, r.cmd.Start())
	r.t.Cleanup(r.stop)
	defer func() {
		if address == "" {
			r.t.Logf("rsyslog says: %s", said)
		}
	}()
	eventually(r.t, "rsyslog to listen", func() bool {
		if port != "0" { // of a port that it did not choose it writes nothing
			c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
			if err != nil {
				return false
			}
			address = "tls://127.0.0.1:" + port
			return c.Close() == nil
		}
		raw, err := os.ReadFile(filepath.Join(r.dir, "port"))
		if err != nil || len(raw) == 0 {
			return false
		}
		address = "tls://127.0.0.1:" + strings.TrimSpace(string(raw))
		return true
	})
	return address
}

// stop ends it in order, so that it writes what it has.
func (r *rsyslog) stop() {
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

func (r *rsyslog) lines(file string) []string {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.dir, file))
	must(r.t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 20 seconds for %s", what)
		}
	}
}

// TestRsyslog: rsyslog takes everything, understands every field, and loses nothing when it is stopped and started while records are sent.
func TestRsyslog(t *testing.T) {
	dbtest.Programs(t, "rsyslogd")
	a := newAuthority(t)
	cert, key := a.issue("siem.example", time.Now().Add(time.Hour))
	mine, minekey := a.issue("sluice.example", time.Now().Add(time.Hour))
	db := dbtest.SQLite(t)
	l := filled(t, db, 600)
	for _, format := range []string{formatOCSF, formatCEF} {
		t.Run(format, func(t *testing.T) {
			r := &rsyslog{t: t, dir: t.TempDir()}
			address := r.start("0", a, cert, key)
			x, _ := exporter(t, db, Config{Name: format, Address: address, Format: format, CAFile: a.ca, ServerName: "siem.example", CertFile: mine, KeyFile: minekey, Host: "gw-1", Timeout: 10 * time.Second})
			d := x.destinations[0]
			if n, err := d.pass(t.Context()); n != 500 || err != nil {
				t.Fatal(n, err)
			}
			r.stop()
			if _, err := d.pass(t.Context()); err == nil {
				t.Fatal("nobody listens, and a batch is confirmed")
			}
			l.Append(600+1000*len(format), 50) // both formats have numbers of their own
			l.Flush()
			r.start(strings.TrimPrefix(address, "tls://127.0.0.1:"), a, cert, key)
			sendAll(t, x)
			r.stop()
			size := state(t, x).Next
			raw, read := r.lines("raw"), r.lines("read")
			complete(t, places(t, raw), size)
			if len(raw) != int(size) || len(read) != int(size) {
				t.Errorf("%d and %d lines of %d records", len(raw), len(read), size)
			}
			for i, line := range read {
				parts := strings.SplitN(line, "|", 7)
				want := []string{"logaudit", "info", "gw-1", "sluice", "outcome", fmt.Sprintf(`[meta sequenceId="%d"]`, i+1)}
				for k, w := range want {
					if parts[k] != w && !(k == 0 && parts[k] == "audit") {
						t.Fatalf("rsyslog reads field %d as %q, want %q: %s", k, parts[k], w, line)
					}
				}
				text := strings.TrimSpace(parts[6])
				if format == formatOCSF && !json.Valid([]byte(text)) || format == formatCEF && !strings.HasPrefix(text, "CEF:0|Sluice|Sluice|1.2.3|chat.completions|") {
					t.Fatalf("rsyslog has the text %q", text)
				}
			}
		})
	}
}
