package eval

import (
	"context"
	"errors"
)

// Read lets a model read the data, limit tokens of it or all, and scores nothing. What the model computes meanwhile can be observed.
func Read(ctx context.Context, m Model, data Data, limit int, progress func(done, total int)) error {
	documents, err := split(ctx, data, m, nil)
	if err != nil {
		return err
	}
	c := cut{context: min(512, m.Context()), limit: limit}
	c.stride = c.context
	c.begin, c.hasBegin = m.Begin()
	list, total := c.windows(documents)
	if total == 0 {
		return errors.New("the text is too short; it must have at least two tokens")
	}
	done := 0
	for _, w := range list {
		s := m.Start()
		for at := 0; at < len(w.tokens) && err == nil; at += chunk {
			part := w.tokens[at:min(at+chunk, len(w.tokens))]
			if err = ctx.Err(); err == nil {
				err = s.Feed(part, 0, func(int, []float32) {}) // without results, a model leaves out the end of its last layer
			}
		}
		s.Release()
		if err != nil {
			return err
		}
		done += len(w.tokens) - w.score
		if progress != nil {
			progress(done, total)
		}
	}
	return nil
}

// split turns the documents into tokens.
func split(ctx context.Context, data Data, measured, baseline Model) ([][]int32, error) {
	var documents [][]int32
	for _, text := range data.Documents {
		if text == "" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids, err := tokens(text, measured, baseline)
		if err != nil {
			return nil, err
		}
		documents = append(documents, ids)
	}
	return documents, nil
}
