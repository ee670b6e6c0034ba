package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// email sends through an SMTP server. Every message has a connection of its own.
type email struct {
	cfg Channel
	tls *tls.Config
}

func newEmail(c Channel) (*email, error) {
	host, _, err := net.SplitHostPort(c.Server)
	if err != nil {
		return nil, err
	}
	return &email{cfg: c, tls: &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}}, nil
}

func (e *email) send(ctx context.Context, m message) error {
	client, err := e.client(ctx)
	if err != nil {
		return &failure{why: err.Error(), final: true}
	}
	msg, err := e.compose(m)
	if err != nil {
		return &failure{why: err.Error(), final: true}
	}
	if err := client.DialAndSendWithContext(ctx, msg); err != nil {
		return e.explain(err)
	}
	return nil
}

func (e *email) client(ctx context.Context) (*mail.Client, error) {
	host, port, err := net.SplitHostPort(e.cfg.Server)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	opts := []mail.Option{mail.WithPort(n), mail.WithTLSConfig(e.tls), mail.WithTLSPolicy(mail.TLSMandatory)}
	switch e.cfg.TLS {
	case tlsFirst:
		opts = append(opts, mail.WithSSL())
	case tlsNone:
		opts = append(opts, mail.WithTLSPolicy(mail.NoTLS))
	}
	if end, ok := ctx.Deadline(); ok {
		opts = append(opts, mail.WithTimeout(max(time.Until(end), time.Millisecond))) // the library heeds the context only while it connects
	}
	if !e.cfg.Password.Empty() {
		opts = append(opts, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(e.cfg.Username), mail.WithPassword(e.cfg.Password.Reveal()))
	}
	return mail.NewClient(host, opts...)
}

func (e *email) compose(m message) (*mail.Msg, error) {
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(e.cfg.From), msg.To(e.cfg.To...)); err != nil {
		return nil, err
	}
	msg.Subject(m.title())
	msg.SetDateWithValue(m.at)
	msg.SetMessageIDWithValue(m.id + "@notify.sluice")
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // nobody's answering machine answers
	msg.SetBodyString(mail.TypeTextPlain, strings.Join(m.lines(), "\n")+"\n")
	return msg, nil
}

// explain keeps what the server says. A code from 500 on means never, everything else may pass.
func (e *email) explain(err error) error {
	f := &failure{why: withoutAddress(err)}
	if reply := (*textproto.Error)(nil); errors.As(err, &reply) {
		f.final = reply.Code >= 500
	} else if s := (*mail.SendError)(nil); errors.As(err, &s) {
		f.final = !s.IsTemp() && s.ErrorCode() >= 500
	}
	if p := e.cfg.Password.Reveal(); p != "" {
		f.why = strings.ReplaceAll(f.why, p, "[secret]")
	}
	f.why = cut(plain(f.why), 300)
	return f
}
