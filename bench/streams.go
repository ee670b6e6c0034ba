package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine/openai"
)

// ask is one request of a load.
type ask struct {
	prompt string
	tokens int    // of the prompt; 0: not known
	output int    // tokens that are generated, no more and no fewer
	tenant string // whose it is; servers without tenants do not look at it
	tier   string // service_tier; "": none
	seed   uint64
}

// answered is what the client saw of an answer. Gaps lie between the arrivals of two chunks that carry text: several tokens in one chunk
// make one gap, for whoever reads it.
type answered struct {
	first, whole time.Duration
	gaps         []time.Duration
	prompt       int // tokens
	cached       int // of these
	completion   int // tokens
}

// endpoint is a server that streams completions.
type endpoint struct {
	name, url string
	key       string         // credential; "": the tenant of the request
	model     string         // as it is asked for
	exact     map[string]any // how a request for so many tokens and no fewer is spelled, but for max_tokens
	least     bool           // it wants min_tokens, too
	client    *http.Client
}

// sampling is the same for everybody: what the peer does by default, spelled out.
func (e *endpoint) body(a ask) ([]byte, error) {
	fields := map[string]any{
		"model": e.model, "prompt": a.prompt, "max_tokens": a.output, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "seed": a.seed,
	}
	if e.least {
		fields["min_tokens"] = a.output
	}
	if a.tier != "" {
		fields["service_tier"] = a.tier
	}
	for k, v := range e.exact {
		fields[k] = v
	}
	return json.Marshal(fields)
}

// stream sends a request and reads its answer; due is when it should have been sent, and what its times count from.
func (e *endpoint) stream(ctx context.Context, a ask, due time.Time) (answered, error) {
	var out answered
	body, err := e.body(a)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	key := e.key
	if key == "" {
		key = a.tenant
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := e.client.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		rest, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return out, fmt.Errorf("%s: status %d: %s", e.name, res.StatusCode, rest)
	}
	if err := out.read(res.Body, due); err != nil {
		return out, fmt.Errorf("%s: %w", e.name, err)
	}
	if out.completion != a.output || a.tokens > 0 && out.prompt != a.tokens {
		return out, fmt.Errorf("%s says %d tokens in and %d out, asked were %d and %d", e.name, out.prompt, out.completion, a.tokens, a.output)
	}
	return out, nil
}

// chunk is what a benchmark needs of one event.
type chunk struct {
	Choices []struct {
		Text string `json:"text"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (a *answered) read(r io.Reader, due time.Time) error {
	events := openai.NewEventReader(r, 1<<20)
	var last time.Time
	for {
		ev, err := events.Next()
		now := time.Now()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if string(ev.Data) == openai.Done {
			continue
		}
		var c chunk
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if c.Error != nil {
			return fmt.Errorf("the stream ended with %s", c.Error)
		}
		if c.Usage != nil {
			a.prompt, a.completion, a.cached = c.Usage.Prompt, c.Usage.Completion, c.Usage.Details.Cached
		}
		if len(c.Choices) == 0 || c.Choices[0].Text == "" {
			continue
		}
		if last.IsZero() {
			a.first = now.Sub(due)
		} else {
			a.gaps = append(a.gaps, now.Sub(last))
		}
		last = now
	}
	if last.IsZero() {
		return errors.New("an answer without text")
	}
	a.whole = last.Sub(due)
	return nil
}

// seen is what a whole load saw.
type seen struct {
	answers []answered
	took    time.Duration
}

// closed has clients send their next request as soon as the one before is answered: client i sends every clients-th request.
func closed(ctx context.Context, e *endpoint, clients int, asks []ask) (seen, error) {
	out := seen{answers: make([]answered, len(asks))}
	var first failure
	var wg sync.WaitGroup
	began := time.Now()
	for i := range clients {
		wg.Go(func() {
			for j := i; j < len(asks) && !first.any(); j += clients {
				var err error
				out.answers[j], err = e.stream(ctx, asks[j], time.Now())
				first.note(err)
			}
		})
	}
	wg.Wait()
	out.took = time.Since(began)
	return out, first.err
}

// open sends each request at its time, whatever became of the others.
func open(ctx context.Context, e *endpoint, at []time.Duration, asks []ask) (seen, error) {
	out := seen{answers: make([]answered, len(asks))}
	var first failure
	var wg sync.WaitGroup
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, a := range asks {
		timer.Reset(time.Until(began.Add(at[i])))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return out, ctx.Err()
		}
		wg.Go(func() {
			var err error
			out.answers[i], err = e.stream(ctx, a, began.Add(at[i]))
			first.note(err)
		})
	}
	wg.Wait()
	out.took = time.Since(began)
	return out, first.err
}

// failure keeps the first error of several goroutines.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *failure) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

// newClient opens a connection for each request: the peer closes idle ones, and what was sent into those cannot be sent again.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
}
