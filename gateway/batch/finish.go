package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/internal/database"
)

// pageLines is how many lines one statement or transaction is about.
const pageLines = 200

// fillLeft gives the lines that were not asked their results: the time is over, or somebody has ended the batch.
func (s *Service) fillLeft(ctx context.Context, w *work, ending string) error {
	code, message := left(ending)
	var page []result
	var perr error
	flush := func() bool {
		if perr == nil && len(page) > 0 {
			_, perr = s.put(s.db.WithContext(ctx), w, page...)
		}
		page = page[:0]
		return perr == nil
	}
	err := s.eachLeft(ctx, w, func(l line) bool {
		r, err := refused(w.id, l, ending, code, message.In(w.lang()))
		if err != nil {
			perr = err
			return false
		}
		page = append(page, r)
		return len(page) < pageLines || flush()
	})
	if err == nil && perr == nil {
		flush()
	}
	if perr != nil {
		return perr
	}
	return err
}

// resultFile is one of the two files that a batch writes.
type resultFile struct {
	kind   string // output or error
	upload *files.Upload
}

func (f *resultFile) id(batch string) string {
	sum := sha256.Sum256([]byte("file of batch/" + batch + "/" + f.kind))
	return "file-" + hex.EncodeToString(sum[:16])
}

// write adds a line; the first one begins the file.
func (f *resultFile) write(ctx context.Context, s *Service, owner files.Owner, text []byte) (err error) {
	if f.upload == nil {
		if f.upload, err = s.cfg.Files.BeginResult(ctx, owner); err != nil {
			return err
		}
	}
	_, err = f.upload.Write(append(text, '\n'))
	return err
}

// commit makes the file, if there is a line in it, and returns its id. Whoever assembles a batch again gets the same file.
func (f *resultFile) commit(w *work) (string, error) {
	if f.upload == nil {
		return "", nil
	}
	out, err := f.upload.Commit(files.NewFile{
		ID: f.id(w.id), Name: w.id + "_" + f.kind + ".jsonl", Purpose: files.PurposeOutput, Life: time.Duration(w.OutputLife) * time.Second,
	})
	return out.ID, err
}

func (f *resultFile) abort(ctx context.Context) {
	if f.upload != nil {
		f.upload.Abort(ctx)
	}
}

// assemble writes the results into files, in the order of the lines, and ends the batch. It may be repeated at any point.
func (s *Service) assemble(ctx context.Context, w *work) error {
	output, failures := &resultFile{kind: "output"}, &resultFile{kind: "error"}
	defer output.abort(ctx)
	defer failures.abort(ctx)
	err := s.eachResult(ctx, w, func(failed bool, text []byte) error {
		to := output
		if failed {
			to = failures
		}
		return to.write(ctx, s, w.owner(), text)
	})
	if err != nil {
		return err
	}
	outputID, err := output.commit(w)
	if err != nil {
		return err
	}
	failuresID, err := failures.commit(w)
	if err != nil {
		return err
	}
	return s.end(ctx, w, map[string]any{"state": w.Ending, "output_file": outputID, "error_file": failuresID})
}

// heldResults is how many bytes of results are read at one time; one that is larger comes alone.
const heldResults = 4 << 20

// place is where a result stands, and the bytes that it takes.
type place struct{ Line, Size int64 }

// eachResult calls do with each result in the order of the lines. It holds few of them at one time, since one can have many megabytes.
func (s *Service) eachResult(ctx context.Context, w *work, do func(failed bool, text []byte) error) error {
	for after := int64(0); ; {
		var next []place
		err := s.db.WithContext(ctx).Model(&lineRow{}).Select("line", "length(sealed) AS size").Where("batch = ? AND line > ?", w.id, after).
			Order("line").Limit(pageLines).Find(&next).Error
		if err != nil {
			return database.Unavailable("look for results", err)
		}
		if len(next) == 0 {
			return nil
		}
		for len(next) > 0 {
			n := fits(next)
			if err := s.someResults(ctx, w, next[0].Line, next[n-1].Line, do); err != nil {
				return err
			}
			after, next = next[n-1].Line, next[n:]
		}
	}
}

// fits returns how many of the places, at least one, are read at one time.
func fits(places []place) int {
	held := places[0].Size
	for n, p := range places[1:] {
		if held += p.Size; held > heldResults {
			return n + 1
		}
	}
	return len(places)
}

func (s *Service) someResults(ctx context.Context, w *work, from, to int64, do func(failed bool, text []byte) error) error {
	var rows []lineRow
	err := s.db.WithContext(ctx).Select("line", "failed", "sealed").Where("batch = ? AND line BETWEEN ? AND ?", w.id, from, to).Order("line").Find(&rows).Error
	if err != nil {
		return database.Unavailable("read results", err)
	}
	for _, r := range rows {
		text, err := w.key.Open(r.Sealed, lineLabel(w.id, r.Line))
		if err != nil {
			return fmt.Errorf("the result of line %d does not open: %w", r.Line, err)
		}
		if err := do(r.Failed != 0, text); err != nil {
			return err
		}
	}
	return nil
}

// fail ends a batch that nobody can ask.
func (s *Service) fail(ctx context.Context, w *work, problems ...Problem) error {
	text, err := json.Marshal(problems)
	if err != nil {
		return err
	}
	return s.end(ctx, w, map[string]any{"state": Failed, "problems": string(text)})
}

// end ends a batch, if it has not ended, lets its input go and removes the rows of its results.
func (s *Service) end(ctx context.Context, w *work, change map[string]any) error {
	change["ended_at"], change["holder"], change["held_until"], change["stored"] = s.now().UnixMicro(), "", 0, 0
	from := []string{Validating, InProgress, Finalizing, Cancelling}
	if change["state"] == Failed { // somebody may have ended it meanwhile
		from = []string{w.State}
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Model(&row{}).Where("id = ? AND state IN ?", w.id, from).Updates(change)
		if res.Error != nil || res.RowsAffected == 0 {
			return res.Error
		}
		if database.IsSQLite(tx) { // what is deleted is overwritten
			if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
				return err
			}
		}
		if err := tx.Where("batch = ?", w.id).Delete(&lineRow{}).Error; err != nil {
			return err
		}
		return s.cfg.Files.Release(tx, w.owner(), w.InputFile)
	})
	return database.Unavailable("end the batch", err)
}
