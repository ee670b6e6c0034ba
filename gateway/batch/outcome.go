package batch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Outcome is what came of one request of a batch.
type Outcome struct {
	CustomID string
	State    string // Completed or Failed; Expired or Cancelled: it was not asked
	Answer   []byte // what it was told, JSON; nil: it was not asked
	Status   int    // that a client would have got; 0: it was not asked
	Code     string // why it was not asked, of package fault where State is Failed
	Message  string // the same for people
}

// Outcomes calls do with each outcome of a batch that has ended, those that succeeded first. It holds one at a time, and before it reads it calls room with the
// bytes that its line has; release is called when do has returned. Errors: CodeNotFound, before anything is done also where a file of results is gone or none
// was ever written; CodeConflict for a batch that has not ended; those of room and do.
func (s *Service) Outcomes(ctx context.Context, o Scope, id string, room func(n int64) (release func(), err error), do func(Outcome) error) error {
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
	var contents []*files.Reader
	for _, file := range []string{b.OutputFile, b.ErrorFile} { // all, before the first outcome is out: one that is gone is no part of a whole
		if file == "" {
			continue
		}
		_, content, err := s.cfg.Files.Open(ctx, o.Owner, file)
		if err != nil {
			return err
		}
		contents = append(contents, content)
	}
	for _, content := range contents {
		in := newOutcomes(content)
		for more := true; more; {
			if more, err = in.next(room, do); err != nil {
				return fmt.Errorf("results of batch %s: %w", b.ID, err)
			}
		}
	}
	return nil
}

// outcomeBuffer is how many bytes of results are held before anybody is asked for room.
const outcomeBuffer = 64 << 10

// outcomes reads a file of results, line by line.
type outcomes struct {
	content *files.Reader
	in      *bufio.Reader // of the content
}

func newOutcomes(content *files.Reader) *outcomes {
	return &outcomes{content, bufio.NewReaderSize(content, outcomeBuffer)}
}

// next does the next line. more: there was one.
func (r *outcomes) next(room func(int64) (func(), error), do func(Outcome) error) (more bool, err error) {
	n, err := r.length()
	if n == 0 || err != nil {
		return false, err
	}
	release, err := room(n)
	if err != nil {
		return false, err
	}
	defer release()
	text := make([]byte, n)
	if _, err := io.ReadFull(r.in, text); err != nil {
		return false, err
	}
	out, err := outcomeOf(text)
	if err == nil {
		err = do(out)
	}
	return true, err
}

// length returns how many bytes the next line has, with its end; 0: there is none. It holds no more than the buffer for that, and reads a line that is longer
// one time more.
func (r *outcomes) length() (int64, error) {
	head, err := r.in.Peek(outcomeBuffer)
	if i := bytes.IndexByte(head, '\n'); i >= 0 {
		return int64(i) + 1, nil
	}
	if errors.Is(err, io.EOF) {
		return int64(len(head)), nil
	}
	if err != nil {
		return 0, err
	}
	n, ahead := int64(len(head)), bufio.NewReaderSize(r.content.Fork(), outcomeBuffer)
	for {
		part, err := ahead.ReadSlice('\n')
		n += int64(len(part))
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return n, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
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
		out.Answer, out.Status = r.Response.Body, r.Response.StatusCode
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
