package cli

import (
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
func WriteReport(path string, d report.Document) error {
	format, err := report.FormatOf(path)
	if err != nil {
		return err
	}
	return WriteNew(path, func(f *os.File) error { return report.Write(f, format, d) })
}
