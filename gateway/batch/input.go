package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
)

// Input takes the requests of a batch that come together with the wish for it, one by one. What a file would be refused for is refused here at once.
// It ends with [Service.CreateFrom] or with Abort, which does nothing after the other. It is not safe for concurrent use.
type Input struct {
	upload *files.Upload
	check  *checker
}

// inputLine is how a request is written.
type inputLine struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// NewInput begins the input of a batch that asks [MessagesEndpoint]. Errors: as of [files.Store.Begin]; CodeBatchesFull where the tenant has as many open
// batches as it may, which [Service.CreateFrom] decides for good.
func (s *Service) NewInput(ctx context.Context, owner files.Owner) (*Input, error) {
	if err := s.roomForBatch(s.db.WithContext(ctx), owner.Tenant); err != nil {
		return nil, database.Unavailable("look for room for a batch", err)
	}
	upload, err := s.cfg.Files.Begin(ctx, owner)
	if err != nil {
		return nil, err
	}
	return &Input{upload, newChecker(MessagesEndpoint, s.cfg.MaxLineBytes, s.cfg.MaxLines)}, nil
}

// Add takes the next request: body is what it asks, one valid JSON value. The problem says why no batch can have it; the input is then of no use any more.
// Errors: as of [files.Upload.Write].
func (in *Input) Add(customID string, body []byte) (*Problem, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(inputLine{customID, "POST", in.check.endpoint, body}); err != nil { // it makes one line of the body
		return nil, errors.New("encode a request") // the encoder's error may quote it
	}
	if p, _ := in.check.take(bytes.TrimSuffix(text.Bytes(), []byte("\n")), in.check.total+1); p != nil {
		return p, nil
	}
	_, err := in.upload.Write(text.Bytes())
	return nil, err
}

// Total is how many requests there are.
func (in *Input) Total() int64 { return in.check.total }

// Abort gives up what has come, unless a batch was made of it.
func (in *Input) Abort(ctx context.Context) { in.upload.Abort(ctx) }

// CreateFrom makes a batch of an input with at least one request, in the name of by. The input is a file of its owner, which goes a window after it came, or
// with the batch; the requests were looked at, so the batch is in progress. Errors: CodeFilesFull, CodeBatchesFull.
func (s *Service) CreateFrom(ctx context.Context, by identity.Principal, n NewBatch, in *Input) (Batch, error) {
	n.Endpoint = in.check.endpoint
	b, err := s.newRow(by, n)
	if err != nil {
		return Batch{}, err
	}
	f, err := in.upload.Commit(files.NewFile{ID: files.NewID(), Name: n.ID + "_requests.jsonl", Purpose: files.PurposeBatch, Life: Window})
	if err != nil {
		return Batch{}, err
	}
	b.InputFile, b.State, b.Total, b.InProgressAt = f.ID, InProgress, in.Total(), b.CreatedAt
	out, err := s.create(ctx, b, n)
	if err != nil {
		_ = s.cfg.Files.Delete(context.WithoutCancel(ctx), b.owner(), f.ID) // else it expires
	}
	return out, err
}
