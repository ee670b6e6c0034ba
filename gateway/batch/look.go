package batch

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// Failure is why a line has no answer, without a word of what it said or was told.
type Failure struct {
	CustomID string
	Status   int // that a client would have got; 0: it was not asked
	Code     string
}

// errEnough ends the reading of results.
var errEnough = errors.New("enough was read")

// Failures returns the first failures of a batch that has ended, at most so many; room is as for [Service.Outcomes]. Errors: CodeNotFound; those of room.
func (s *Service) Failures(ctx context.Context, o Scope, id string, most int, room func(n int64) (release func(), err error)) (list []Failure, err error) {
	b, err := find(s.db.WithContext(ctx), o, id)
	if err != nil || b.ErrorFile == "" {
		return nil, database.Unavailable("look for the batch", err)
	}
	_, content, err := s.cfg.Files.Open(ctx, b.owner(), b.ErrorFile)
	if err != nil {
		return nil, err
	}
	in := newOutcomes(content)
	for more := true; more; {
		more, err = in.next(room, func(out Outcome) error {
			if len(list) == most {
				return errEnough
			}
			list = append(list, failureOf(out))
			return nil
		})
		if err != nil {
			break
		}
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, err
}

func failureOf(out Outcome) Failure {
	f := Failure{CustomID: out.CustomID, Status: out.Status, Code: out.Code}
	if f.Code != "" {
		return f
	}
	var told struct {
		Error struct {
			Code *string `json:"code"`
			Type string  `json:"type"` // of a dialect without codes
		} `json:"error"`
	}
	if json.Unmarshal(out.Answer, &told) != nil {
		return f
	}
	if f.Code = told.Error.Type; told.Error.Code != nil {
		f.Code = *told.Error.Code
	}
	return f
}

// Model returns the model that the first line of a batch asks for; "" where there is none any more. Error: CodeNotFound.
func (s *Service) Model(ctx context.Context, o Scope, id string) (string, error) {
	b, err := find(s.db.WithContext(ctx), o, id)
	if err != nil {
		return "", database.Unavailable("look for the batch", err)
	}
	_, content, err := s.cfg.Files.Open(ctx, b.owner(), b.InputFile)
	if err != nil {
		return "", nil //nolint:nilerr // its file has gone
	}
	in := newLines(content, s.cfg.MaxLineBytes)
	raw, err := in.next()
	if err != nil || raw == nil {
		return "", nil //nolint:nilerr // what is wrong with a file its problems say
	}
	l, p := parse(raw, in.number, b.Endpoint)
	if p != nil {
		return "", nil
	}
	body, _ := rawjson.Object(string(l.body))
	model, _ := body.Get("model")
	name, _ := rawjson.Text(model)
	return name, nil
}
