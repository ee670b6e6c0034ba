package keysource

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Helper names the program that keeps a key, such as one in a hardware module, and wraps and unwraps with it. The program is started for each
// request, gets one line and answers with one:
//
//	wrap 1 PLAINTEXT            →  ok KEYID CIPHERTEXT
//	unwrap 1 KEYID CIPHERTEXT   →  ok KEYID PLAINTEXT
//	                               error WORD what went wrong and what to do
//
// 1 is the version of the protocol, texts are in base 64, ids are printable without spaces. A helper writes no secret into an error line.
type Helper struct {
	Command     []string      // the program by its absolute path, and its arguments
	Environment []string      // variables that the program gets beside PATH and HOME
	Timeout     time.Duration // 0: 30s
}

func (h Helper) validate(used bool) error {
	var errs []error
	if used && len(h.Command) == 0 {
		errs = append(errs, errors.New("helper.command: must be set"))
	}
	if len(h.Command) > 0 && !filepath.IsAbs(h.Command[0]) {
		errs = append(errs, errors.New("helper.command: must begin with an absolute path"))
	}
	if h.Timeout < 0 || h.Timeout > 5*time.Minute {
		errs = append(errs, errors.New("helper.timeout: must lie between 0 and 5m"))
	}
	return errors.Join(errs...)
}

type helper struct{ cfg Helper }

func (h *helper) wrap(ctx context.Context, root []byte, _ func(string) []byte) (wrapped, keyID string, err error) {
	a, err := h.ask(ctx, "wrap 1 "+base64.StdEncoding.EncodeToString(root))
	if err != nil {
		return "", "", err
	}
	return base64.StdEncoding.EncodeToString(a.text), a.keyID, nil
}

func (h *helper) unwrap(ctx context.Context, s Sealed) ([]byte, error) {
	a, err := h.ask(ctx, "unwrap 1 "+s.KeyID+" "+s.Wrapped)
	if err != nil {
		return nil, err
	}
	if a.keyID != s.KeyID {
		return nil, failed("keysource.helper_answer", h.cfg.Command[0])
	}
	return a.text, nil
}

// ask starts the program for one request.
func (h *helper) ask(ctx context.Context, line string) (helperAnswer, error) {
	program, limit := h.cfg.Command[0], cmp.Or(h.cfg.Timeout, 30*time.Second)
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(within, program, h.cfg.Command[1:]...)
	cmd.Env = []string{}
	for _, name := range append([]string{"PATH", "HOME"}, h.cfg.Environment...) {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdin = strings.NewReader(line + "\n")
	var out bytes.Buffer
	cmd.Stdout = &limited{&out, maxFile}
	cmd.WaitDelay = time.Second // for what it started and left behind
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return helperAnswer{}, ctx.Err()
	case within.Err() != nil:
		return helperAnswer{}, failed("keysource.helper_slow", program, limit)
	case err != nil && out.Len() == 0:
		return helperAnswer{}, failed("keysource.helper_failed", program, err)
	}
	a, perr := parseHelper(out.Bytes())
	switch {
	case perr != nil:
		return helperAnswer{}, failed("keysource.helper_answer", program)
	case a.word != "":
		return helperAnswer{}, failed("keysource.helper_refused", program, a.word, a.said)
	}
	return a, nil
}

// limited keeps what fits, and takes the rest without keeping it.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	l.to.Write(b[:n])
	return len(b), nil
}

// helperAnswer is what a helper said: a text under a key, or a word and a sentence.
type helperAnswer struct {
	keyID      string
	text       []byte
	word, said string
}

var errNoAnswer = errors.New("it is no answer of the protocol")

func parseHelper(out []byte) (helperAnswer, error) {
	line, err := bufio.NewReader(bytes.NewReader(out)).ReadString('\n')
	if err != nil || len(line) < len(out) { // nothing comes behind the line
		return helperAnswer{}, errors.Join(errNoAnswer, noEOF(err))
	}
	kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	first, second, _ := strings.Cut(rest, " ")
	switch kind {
	case "ok":
		text, err := base64.StdEncoding.Strict().DecodeString(second)
		if err != nil || len(text) == 0 || strings.ContainsAny(second, "\r\n") || !printable.MatchString(first) {
			return helperAnswer{}, errNoAnswer
		}
		return helperAnswer{keyID: first, text: text}, nil
	case "error":
		if !printable.MatchString(first) {
			return helperAnswer{}, errNoAnswer
		}
		return helperAnswer{word: foreign(first, ""), said: foreign(second, "")}, nil
	}
	return helperAnswer{}, fmt.Errorf("%w: %.20q", errNoAnswer, kind)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
