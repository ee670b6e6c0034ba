package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/eval"
	"github.com/sluice-project/sluice/internal/testpython"
)

//go:embed presidio_peer.py
var peerScript string

// presidio is a running peer.
type presidio struct {
	Version     string              `json:"version"`
	Python      string              `json:"python"`
	Recognizers map[string][]string `json:"recognizers"` // of each engine

	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startPresidio(ctx context.Context, regions string) (*presidio, error) {
	python, err := testpython.Environment(ctx, "presidio")
	if err != nil {
		return nil, err
	}
	p := &presidio{cmd: exec.CommandContext(ctx, python, "-W", "ignore", "-c", peerScript, regions)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Presidio: %w", err)
	}
	p.out = json.NewDecoder(bufio.NewReader(out))
	if err := p.out.Decode(p); err != nil {
		return nil, errors.Join(fmt.Errorf("start Presidio: %w", err), p.cmd.Wait())
	}
	return p, nil
}

func (p *presidio) stop() {
	_ = p.in.Close() // the peer ends with its input
	_ = p.cmd.Wait()
}

func (p *presidio) ask(command map[string]any, answer any) error {
	if err := json.NewEncoder(p.in).Encode(command); err != nil {
		return fmt.Errorf("ask Presidio: %w", err)
	}
	if err := p.out.Decode(answer); err != nil {
		return fmt.Errorf("answer of Presidio: %w", err)
	}
	return nil
}

func (p *presidio) load(texts []string) error {
	return p.ask(map[string]any{"do": "load", "texts": texts}, &struct{}{})
}

// Its engines: with the recognisers that it turns on by itself, with every pattern recogniser that it ships for English, and with those for other
// languages, too.
const (
	usual   = "usual"
	english = "english"
	every   = "every"
)

// time returns the seconds that an engine takes for the loaded texts, the mean of at least a second.
func (p *presidio) time(engine string) (float64, error) {
	var out struct {
		Seconds float64 `json:"seconds"`
	}
	return out.Seconds, p.ask(map[string]any{"do": "time", "engine": engine}, &out)
}

// find returns what Presidio, as it is by itself, finds of the classes that both know, by text. Its offsets count characters.
func (p *presidio) find(documents []corpus.Document) (map[string][]eval.Found, error) {
	texts := make([]string, len(documents))
	for i, d := range documents {
		texts[i] = d.Text
	}
	if err := p.load(texts); err != nil {
		return nil, err
	}
	var answer struct {
		Found [][]struct {
			Start int     `json:"start"`
			End   int     `json:"end"`
			Type  string  `json:"type"`
			Score float64 `json:"score"`
		} `json:"found"`
	}
	if err := p.ask(map[string]any{"do": "find"}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Found) != len(texts) {
		return nil, fmt.Errorf("answer of Presidio: for %d of %d texts only", len(answer.Found), len(texts))
	}
	out := map[string][]eval.Found{}
	for i, found := range answer.Found {
		for _, f := range found {
			for _, c := range common() {
				if c[1] == f.Type { // the first class of that name
					out[texts[i]] = append(out[texts[i]], eval.Found{Start: f.Start, End: f.End, Class: c[0], Score: f.Score})
					break
				}
			}
		}
	}
	return out, nil
}
