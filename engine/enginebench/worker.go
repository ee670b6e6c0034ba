package enginebench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native"
)

// Model says what a worker opens.
type Model struct {
	Path    string `json:"path"`
	Plan    string `json:"plan"` // precision plan; "" is the engine's own choice for the file
	Threads int    `json:"threads"`
	Context int    `json:"context"` // tokens that a sequence must hold
	Packed  string `json:"packed"`  // directory that keeps packed weights between loads; "" keeps none
}

// Opened is what opening a model told.
type Opened struct {
	ISA     string  `json:"isa"`     // tier of the kernels
	Seconds float64 `json:"seconds"` // to read, check and pack the weights and to compute a first token
	Work    Work    `json:"work"`
}

// Limits is what the machine gives at one moment, with nothing of an engine in it.
type Limits struct {
	ReadGBs   float64 `json:"read_gb_per_second"`              // reading a block of the weights' size, all threads
	MultiplyG float64 `json:"int8_gmac_per_second,omitempty"`  // int8 multiply-accumulates in registers, all threads, 10⁹ per second
	HandOver  float64 `json:"hand_over_nanoseconds,omitempty"` // there and back between two threads
}

// Memory is what the worker's process holds, as the system counts it.
type Memory struct {
	Peak      int64 `json:"peak_bytes"`      // most that was resident at a time since the process began
	Anonymous int64 `json:"anonymous_bytes"` // resident now and private to the process
	File      int64 `json:"file_bytes"`      // resident now and part of a mapped file, which the system can drop and read again
}

// workerRequest is one line to a worker.
type workerRequest struct {
	Do     string `json:"do"`
	Model  Model  `json:"model,omitzero"`
	Tokens int    `json:"tokens,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
}

// workerReply is one line from a worker.
type workerReply struct {
	Error   string  `json:"error,omitempty"`
	Opened  Opened  `json:"opened,omitzero"`
	Seconds float64 `json:"seconds,omitempty"`
	Limits  Limits  `json:"limits,omitzero"`
	Memory  Memory  `json:"memory,omitzero"`
}

// Serve answers the questions on in, one line of JSON each, until in ends. It is the whole of a worker's life.
func Serve(in io.Reader, out io.Writer) error {
	s := server{}
	defer s.close()
	questions, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q workerRequest
		if err := questions.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a question: %w", err)
		}
		r, err := s.answer(q)
		if err != nil {
			r = workerReply{Error: err.Error()}
		}
		if err := replies.Encode(r); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// server is the state of a worker.
type server struct {
	runner *native.Runner
	random *rand.Rand
}

func (s *server) close() {
	if s.runner != nil {
		_ = s.runner.Close()
	}
}

func (s *server) answer(q workerRequest) (workerReply, error) {
	switch {
	case q.Do == "open" && s.runner == nil:
		o, err := s.open(q.Model)
		return workerReply{Opened: o}, err
	case q.Do == "limits":
		return workerReply{Limits: measureLimits(q.Model.Threads, q.Bytes, kernel.Detect(warnings()))}, nil
	case q.Do == "memory":
		m, err := memory("/proc/self/status")
		return workerReply{Memory: m}, err
	case s.runner == nil:
		return workerReply{}, fmt.Errorf("%q was asked before a model was opened", q.Do)
	case q.Do == "prompt":
		d, err := s.prompt(q.Tokens)
		return workerReply{Seconds: d.Seconds()}, err
	case q.Do == "generate":
		d, err := s.generate(q.Tokens, q.Depth)
		return workerReply{Seconds: d.Seconds()}, err
	}
	return workerReply{}, fmt.Errorf("nobody here knows how to do %q", q.Do)
}

func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// open loads the model and computes one token, which is when it is of use.
func (s *server) open(m Model) (Opened, error) {
	started := time.Now()
	r, err := native.OpenRunner(native.RunnerConfig{Path: m.Path, Plan: m.Plan, Threads: m.Threads, Context: m.Context, CacheDir: m.Packed, Log: warnings()})
	if err != nil {
		return Opened{}, err
	}
	s.runner, s.random = r, rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same tokens in every run
	if _, err := s.prompt(1); err != nil {
		return Opened{}, err
	}
	return Opened{ISA: r.ISA(), Seconds: time.Since(started).Seconds(), Work: workOf(r)}, nil
}

func (s *server) prompt(n int) (time.Duration, error) {
	seq := s.runner.NewSequence()
	defer seq.Release()
	tokens := s.tokens(n)
	started := time.Now()
	err := s.runner.Feed(seq, tokens, 0, n-1, discard)
	return time.Since(started), err
}

func (s *server) generate(n, depth int) (time.Duration, error) {
	seq := s.runner.NewSequence()
	defer seq.Release()
	if err := s.runner.Feed(seq, s.tokens(depth), 0, 0, nil); err != nil {
		return 0, err
	}
	tokens := s.tokens(n)
	started := time.Now()
	for i := range tokens {
		if err := s.runner.Feed(seq, tokens[i:i+1], 0, 0, discard); err != nil {
			return 0, err
		}
	}
	return time.Since(started), nil
}

func discard(int, []float32) {}

func (s *server) tokens(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = s.random.Int32N(int32(s.runner.Vocab()))
	}
	return out
}
