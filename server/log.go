package server

import (
	"io"
	"log/slog"

	"github.com/sluice-project/sluice/server/config"
)

// NewLogger returns the process logger. Request and trace ids are attributes that the HTTP edge adds; prompt, answer and secret
// text is never an attribute.
func NewLogger(cfg config.Log, w io.Writer) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: l, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // JSON would show nanoseconds without saying so
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(w, opts)), nil
}
