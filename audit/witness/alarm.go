package witness

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrAlarm means that the log states something that contradicts what the witness remembers, now or in an alarm nobody has cleared yet.
var ErrAlarm = errors.New("the audit log contradicts what this witness remembers")

// Kinds of alarms.
const (
	kindRollback = "rollback" // fewer records than before: an older copy of the database was restored
	kindFork     = "fork"     // another root for the same records: two histories
	kindHistory  = "history"  // more records, but not behind the remembered ones: history was rewritten
	kindHashes   = "hashes"   // the log's own hashes do not give the root it signed: the tree was changed
	kindKey      = "key"      // a checkpoint in the log's name that none of its keys signed
)

// maxAlarms bounds the files of one directory. What contradicts a hundred times contradicts.
const maxAlarms = 100

// alarm is a contradiction, kept as evidence.
type alarm struct {
	Kind       string    `json:"kind"`
	Why        string    `json:"why"`
	Time       time.Time `json:"time"`
	Remembered string    `json:"remembered"` // the note this witness cosigned last
	Shown      string    `json:"shown"`      // the note the log showed
}

// object keeps an alarm as evidence and says it aloud. The same contradiction is kept once.
func (w *Witness) object(kind, shown, why string) error {
	text, err := json.MarshalIndent(alarm{kind, why, w.cfg.Now().UTC(), w.note, shown}, "", "  ")
	if err == nil {
		sum := sha256.Sum256([]byte(shown))
		name := fmt.Sprintf("%s-%x.json", kind, sum[:8])
		var files []string
		if files, err = w.alarms(); err == nil && len(files) < maxAlarms && !slices.Contains(files, name) {
			err = replaceFile(filepath.Join(w.cfg.Dir, alarmDir, name), append(text, '\n'))
		}
	}
	if err != nil {
		w.log.Error("the evidence of an alarm could not be kept", slog.String("error", err.Error()))
	}
	return fmt.Errorf("%w: %s: %s", ErrAlarm, kind, why)
}

// alarms lists the files of alarms nobody has cleared.
func (w *Witness) alarms() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(w.cfg.Dir, alarmDir))
	if err != nil {
		return nil, fmt.Errorf("read alarms: %w", err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".new") { // of a write that was cut off
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// uncleared reports, as [ErrAlarm], that alarms of this pass or of earlier ones are not cleared.
func (w *Witness) uncleared() error {
	files, err := w.alarms()
	if err != nil || len(files) == 0 {
		return err
	}
	return fmt.Errorf("%w: %d alarms wait in %s; look at them, and move the files away once they are explained",
		ErrAlarm, len(files), filepath.Join(w.cfg.Dir, alarmDir))
}
