package enginebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Command says how a worker is started: a program that calls [Serve].
type Command struct {
	Args []string // program and arguments
	Env  []string // its whole environment
}

// Worker is a process that measures. One goroutine uses it.
type Worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies *json.Decoder
	ended   bool
}

// Start starts a worker. It ends when ctx does, or with [Worker.Close].
func Start(ctx context.Context, c Command) (*Worker, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Stderr = c.Env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the measuring process: %w", err)
	}
	return &Worker{cmd: cmd, in: in, replies: json.NewDecoder(out)}, nil
}

// Open loads a model; a worker does so once.
func (w *Worker) Open(m Model) (Opened, error) {
	r, err := w.ask(workerRequest{Do: "open", Model: m})
	return r.Opened, err
}

// Prompt computes n tokens into an empty sequence.
func (w *Worker) Prompt(n int) (time.Duration, error) {
	r, err := w.ask(workerRequest{Do: "prompt", Tokens: n})
	return seconds(r.Seconds), err
}

// Generate computes n tokens one by one behind depth others, which are not part of the time.
func (w *Worker) Generate(n, depth int) (time.Duration, error) {
	r, err := w.ask(workerRequest{Do: "generate", Tokens: n, Depth: depth})
	return seconds(r.Seconds), err
}

// Limits measures the machine with a number of threads; block is the size of what is read, in bytes.
func (w *Worker) Limits(threads int, block int64) (Limits, error) {
	r, err := w.ask(workerRequest{Do: "limits", Model: Model{Threads: threads}, Bytes: block})
	return r.Limits, err
}

// Memory returns what the worker holds.
func (w *Worker) Memory() (Memory, error) {
	r, err := w.ask(workerRequest{Do: "memory"})
	return r.Memory, err
}

// Close ends the worker and waits for its end. A worker that went away before, about which an error told, is not mentioned again.
func (w *Worker) Close() error {
	if w.ended {
		return nil
	}
	if err := w.end(); err != nil {
		return fmt.Errorf("the measuring process ended with: %w", err)
	}
	return nil
}

func (w *Worker) end() error {
	w.ended = true
	_ = w.in.Close()
	return w.cmd.Wait()
}

func (w *Worker) ask(q workerRequest) (workerReply, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return workerReply{}, err
	}
	var r workerReply
	if _, err = w.in.Write(append(line, '\n')); err == nil {
		err = w.replies.Decode(&r)
	}
	if err != nil {
		return workerReply{}, w.gone(q.Do, err)
	}
	if r.Error != "" {
		return workerReply{}, errors.New(r.Error)
	}
	return r, nil
}

// gone says why a worker does not answer: how it ended tells more than a broken pipe.
func (w *Worker) gone(doing string, err error) error {
	if end := w.end(); end != nil {
		err = end
	}
	return fmt.Errorf("the measuring process went away during %q (%w); see what it wrote, and whether the memory suffices", doing, err)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
