package worker

import (
	"context"
	"fmt"

	"github.com/sluice-project/sluice/engine"
)

// WarmUp has an engine run once for each of its models, so that the first request of somebody finds weights in memory and threads that run. Nobody's
// text is in it.
func WarmUp(ctx context.Context, e engine.Engine) error {
	models, err := e.Models(ctx)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for _, m := range models {
		if err := warmModel(ctx, e, m); err != nil {
			return fmt.Errorf("warm up %s: %w", m.ID, err)
		}
	}
	return nil
}

const warmText = "warm up"

func warmModel(ctx context.Context, e engine.Engine, m engine.Model) error {
	switch {
	case m.Base != "": // an adapter's base is warm
		return nil
	case m.CanGenerate:
		p, err := e.Prepare(ctx, &engine.Request{Model: m.ID, Prompt: warmText, MaxTokens: 1, Logprobs: -1})
		if err != nil {
			return err
		}
		for _, err := range e.Generate(ctx, p) {
			if err != nil {
				return err
			}
		}
		return nil
	case m.CanEmbed:
		p, err := e.Prepare(ctx, &engine.EmbedRequest{Model: m.ID, Input: []string{warmText}})
		if err == nil {
			_, err = e.Embed(ctx, p)
		}
		return err
	case m.CanScore:
		p, err := e.Prepare(ctx, &engine.ScoreRequest{Model: m.ID, Query: warmText, Documents: []string{warmText}})
		if err == nil {
			_, err = e.Score(ctx, p)
		}
		return err
	}
	return nil
}
