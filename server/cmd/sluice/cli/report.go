package cli

import (
	"errors"
	"os"

	"github.com/sluice-project/sluice/internal/report"
)

// Reportable refuses a report that could not be written, before the work that it is about begins; "" is none.
func Reportable(path string) error {
	if path == "" {
		return nil
	}
	if _, err := report.FormatOf(path); err != nil {
		return Misuse("cli.shared.report_format", path)
	}
	if _, err := os.Stat(path); err == nil {
		return &os.PathError{Op: "write report", Path: path, Err: os.ErrExist}
	}
	return nil
}

// WriteReport writes a document to a new file, in the format of its name. A file that stays is whole.
func WriteReport(path string, d report.Document) (err error) {
	format, err := report.FormatOf(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	if err := report.Write(f, format, d); err != nil {
		return err
	}
	return f.Sync()
}
