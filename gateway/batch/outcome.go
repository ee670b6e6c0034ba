package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Outcome is what came of one request of a batch.
type Outcome struct {
	CustomID string
	State    string // Completed or Failed; Expired or Cancelled: it was not asked
	Answer   []byte // what it was told, JSON; nil: it was not asked
	Code     string // why it was not asked, of package fault where State is Failed
	Message  string // the same for people
}

// Outcomes calls do with each outcome of a batch that has ended, those that succeeded first. It holds one at a time. Errors: CodeNotFound, also where the
// files of results are gone or were never written; CodeConflict for a batch that has not ended; those of do.
func (s *Service) Outcomes(ctx context.Context, o Scope, id string, do func(Outcome) error) error {
	b, err := find(s.db.WithContext(ctx), o, id)
	if err != nil {
		return database.Unavailable("look for the batch", err)
	}
	if !b.ended() {
		return fault.New(fault.CodeConflict, fault.Say("batch.not_over", b.State))
	}
	if b.OutputFile == "" && b.ErrorFile == "" {
		return notFound(id)
	}
	for _, file := range []string{b.OutputFile, b.ErrorFile} {
		if file == "" {
			continue
		}
		if err := s.outcomesOf(ctx, o, file, do); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) outcomesOf(ctx context.Context, o Scope, file string, do func(Outcome) error) error {
	_, content, err := s.cfg.Files.Open(ctx, o.Owner, file)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(content, 64<<10)
	for {
		text, err := in.ReadBytes('\n') // bounded by what is kept of an answer
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := outcomeOf(text)
		if err != nil {
			return fmt.Errorf("file %s: %w", file, err)
		}
		if err := do(out); err != nil {
			return err
		}
	}
}

func outcomeOf(text []byte) (Outcome, error) {
	var r wireResult
	if json.Unmarshal(text, &r) != nil || r.Response == nil && r.Error == nil {
		return Outcome{}, errors.New("a result is not ours") // the error of the decoder would quote it
	}
	out := Outcome{CustomID: r.CustomID, State: Failed}
	switch {
	case r.Response != nil:
		out.Answer = r.Response.Body
		if succeeded(r.Response.StatusCode) {
			out.State = Completed
		}
	case r.Error.Code == codeExpired:
		out.State = Expired
	case r.Error.Code == codeCancelled:
		out.State = Cancelled
	}
	if r.Error != nil {
		out.Code, out.Message = r.Error.Code, r.Error.Message
	}
	return out, nil
}
