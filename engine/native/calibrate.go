package native

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/native/exec"
)

const (
	maxCalibration     = 4 << 20 // bytes of a calibration text
	calibrationTokens  = 2048    // how many tokens of it are computed, together
	calibrationContext = 512     // how many of them follow one another
	calibrationVersion = 2       // changes with what is computed from a text
)

// calibration is a text for which the weights of a plan are rounded.
type calibration struct {
	text   string
	digest string
}

// readCalibration reads the file that a model names; nil where it names none.
func readCalibration(path string) (*calibration, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the calibration text: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxCalibration+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the calibration text: %w", err)
	case len(data) > maxCalibration:
		return nil, fmt.Errorf("the calibration text %s is longer than %d MiB; a few pages are enough", path, maxCalibration>>20)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("the calibration text %s is not UTF-8; save it as plain UTF-8 text", path)
	case strings.TrimSpace(string(data)) == "":
		return nil, fmt.Errorf("the calibration text %s is empty; give some pages of text like what the model will read", path)
	}
	sum := sha256.Sum256(data)
	return &calibration{text: string(data), digest: hex.EncodeToString(sum[:])}, nil
}

// calibrates reports whether a plan has weights whose rounding a calibration changes.
func (p plan) calibrates() bool {
	for _, e := range p.policy.Classes {
		if e == "i8" || e == "q8" {
			return true
		}
	}
	return false
}

func (p plan) notCalibrated() error {
	return fmt.Errorf("a calibration has no effect with the precision plan %q, which rounds no weights to eight bits; use int8 or leave it out", p.name)
}

// calibrated gives the plan the name it has with a calibration.
func (p plan) calibrated(c *calibration) plan {
	if c != nil {
		p.name += "+cal:" + c.digest[:8]
		p.packed += "+cal:" + c.digest[:8]
	}
	return p
}

// options is what the compiler needs of a calibration of the model at path.
func (o *opener) options(c *calibration, path string) *exec.Calibration {
	if c == nil {
		return nil
	}
	return &exec.Calibration{
		Digest: fmt.Sprintf("%d:%s", calibrationVersion, c.digest), Kernels: o.kernels,
		Read: func(see func(matrix string, input []float32, of int)) error { return o.calibrate(c.text, path, see) },
	}
}

// calibrate computes a text with weights in half precision, which give activations in float32, all of it at once: so that all inputs
// of a matrix are seen before those of the next.
func (o *opener) calibrate(text, path string, see func(matrix string, input []float32, of int)) (err error) {
	files, err := arch.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	texts, err := calibrationTexts(files, text)
	if err != nil {
		return err
	}
	policy, err := Precision(PlanF16)
	if err != nil {
		return err
	}
	// Only the outputs that are wanted reach the end of the last layer, if that pass runs; here none is wanted.
	if _, err := graph.Optimize(files.Graph, policy, "rows"); err != nil {
		return err
	}
	prog, _, err := exec.Compile(files.Graph, func(name string) (exec.Tensor, error) { return files.Tensor(name) },
		exec.Options{Plan: PlanF16, Context: calibrationContext, ISA: o.kernels.ISA(), Threads: o.cfg.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	pool := exec.NewPool(o.cfg.Threads)
	defer pool.Close()
	p := prog.NewPass(o.kernels, pool)
	for _, ids := range texts {
		cache := p.Pages().NewCache()
		reserve(cache, len(ids))
		for pos, id := range ids {
			p.Rows = append(p.Rows, exec.Row{Token: id, Cache: cache, Pos: pos})
		}
		cache.Advance(len(ids))
	}
	p.Observe = func(matrix string, input []float32) { see(matrix, input, len(p.Rows)) }
	p.Run()
	return nil
}

// calibrationTexts cuts a text into what the model reads: an encoder its paragraphs, another one pieces of equal length. Of a long
// text it takes some from everywhere.
func calibrationTexts(files *arch.Model, text string) ([][]int32, error) {
	context := min(calibrationContext, files.Config.Context)
	var all [][]int32
	if files.Config.Encoder() {
		tokens, err := encoderTokens(files)
		if err != nil {
			return nil, err
		}
		for _, paragraph := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n") {
			if strings.TrimSpace(paragraph) == "" {
				continue
			}
			ids := tokens.Encode(paragraph)
			all = append(all, ids[:min(context, len(ids))])
		}
		return spread(all, calibrationTokens), nil
	}
	tokens, _, err := generatorTokens(files)
	if err != nil {
		return nil, err
	}
	begin, add := tokens.BOS()
	ids := tokens.Encode(text, false)
	for len(ids) > 0 {
		var piece []int32
		if add {
			piece = append(piece, begin)
		}
		n := min(context-len(piece), len(ids))
		all, ids = append(all, append(piece, ids[:n]...)), ids[n:]
	}
	return spread(all, calibrationTokens), nil
}

// spread chooses texts at equal distances so that they have about limit tokens.
func spread(all [][]int32, limit int) [][]int32 {
	total := 0
	for _, t := range all {
		total += len(t)
	}
	if total <= limit {
		return all
	}
	n := max(1, len(all)*limit/total)
	out := make([][]int32, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}
