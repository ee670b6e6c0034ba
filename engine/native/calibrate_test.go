package native

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
)

func calibrationFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tinyLogits returns what a plan of the model makes of some tokens, and the plan's name.
func tinyLogits(t *testing.T, cfg RunnerConfig) ([]float32, string) {
	t.Helper()
	cfg.Context = 256
	r, err := OpenRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ids, err := r.Encode("The lamp over the gate burns all night.")
	if err != nil {
		t.Fatal(err)
	}
	var out []float32
	s := r.NewSequence()
	defer s.Release()
	if err := r.Feed(s, ids, 0, 0, func(_ int, logits []float32) { out = append(out, logits...) }); err != nil {
		t.Fatal(err)
	}
	return out, r.Info().Precision
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]-b[i]) * float64(a[i]-b[i])
	}
	return math.Sqrt(sum)
}

// A calibrated model comes closer to the exact one, is the same for the same text and any number of threads, and is packed once for
// each text.
func TestCalibration(t *testing.T) {
	path, dir := newTiny(gguf.F32).write(t), t.TempDir()
	text := strings.Repeat("A gull sat on the roof of the mill. The keeper of the lamp went up the stairs and counted ships. ", 20)
	exact, _ := tinyLogits(t, RunnerConfig{Path: path, Plan: PlanF32})
	plain, _ := tinyLogits(t, RunnerConfig{Path: path, Plan: PlanInt8})
	cfg := RunnerConfig{Path: path, Plan: PlanInt8, Threads: 1, CacheDir: dir, Calibration: calibrationFile(t, text)}
	calibrated, name := tinyLogits(t, cfg)
	sum := sha256.Sum256([]byte(text))
	if want := "int8+cal:" + hex.EncodeToString(sum[:4]); name != want {
		t.Errorf("the plan is called %s, want %s", name, want)
	}
	before, after := distance(plain, exact), distance(calibrated, exact)
	t.Logf("distance from the exact scores %.5f, calibrated %.5f", before, after)
	if after >= 0.8*before {
		t.Errorf("distance from the exact scores %g, calibrated %g", before, after)
	}
	files := func() int {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(dir, "*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for _, c := range []struct {
		name, text, dir string
		threads, files  int
		same            bool
	}{
		{"mapped", text, dir, 2, 1, true},
		{"other threads", text, "", 3, 1, true},
		{"other text", strings.ToUpper(text), dir, 2, 2, false},
		{"first text again", text, dir, 2, 2, true},
	} {
		cfg.Threads, cfg.CacheDir, cfg.Calibration = c.threads, c.dir, calibrationFile(t, c.text)
		got, _ := tinyLogits(t, cfg)
		if slices.Equal(got, calibrated) != c.same || files() != c.files {
			t.Errorf("%s: the same %v, want %v; %d packed files, want %d", c.name, !c.same, c.same, files(), c.files)
		}
	}
	t.Setenv("SLUICE_ISA", "generic")
	cfg.Threads, cfg.CacheDir, cfg.Calibration = 2, "", calibrationFile(t, text)
	if got, _ := tinyLogits(t, cfg); !slices.Equal(got, calibrated) {
		t.Error("the reference kernels round other weights")
	}
}

func TestCalibrationRefuses(t *testing.T) {
	path := newTiny(gguf.Q8_0).write(t)
	for want, cfg := range map[string]RunnerConfig{
		"no such file":   {Plan: PlanInt8, Calibration: filepath.Join(t.TempDir(), "missing")},
		"is empty":       {Plan: PlanInt8, Calibration: calibrationFile(t, " \n")},
		"is not UTF-8":   {Plan: PlanInt8, Calibration: calibrationFile(t, "\xff\xfe")},
		"is longer than": {Plan: PlanInt8, Calibration: calibrationFile(t, strings.Repeat("x", maxCalibration+1))},
		"has no effect":  {Plan: PlanNative, Calibration: calibrationFile(t, "x")},
	} {
		cfg.Path = path
		r, err := OpenRunner(cfg)
		if err == nil {
			_ = r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// An override gives a class of weights blocks that the file has in another format.
func TestOverrideToBlocksRoundsAgain(t *testing.T) {
	for _, kind := range []gguf.Type{gguf.Q4_1, gguf.F32, gguf.F16} {
		path := newTiny(kind).write(t)
		exact, _ := tinyLogits(t, RunnerConfig{Path: path, Plan: PlanF32})
		got, _ := tinyLogits(t, RunnerConfig{Path: path, Plan: "int8,ffn=q8,down=q8,attention=q8"})
		length := distance(exact, make([]float32, len(exact)))
		if d := distance(got, exact); !(d < 0.1*length) {
			t.Errorf("%v: distance %g of %g", kind, d, length)
		}
	}
}

func TestSpreadTakesFromEverywhere(t *testing.T) {
	var all [][]int32
	for i := range 10 {
		all = append(all, make([]int32, 100))
		all[i][0] = int32(i)
	}
	first := func(some [][]int32) (ids []int32) {
		for _, t := range some {
			ids = append(ids, t[0])
		}
		return ids
	}
	if got := first(spread(all, 1000)); len(got) != 10 {
		t.Errorf("all fit, chosen are %v", got)
	}
	if got := first(spread(all, 350)); !slices.Equal(got, []int32{0, 3, 6}) {
		t.Errorf("chosen are %v", got)
	}
	if got := first(spread(all, 5)); !slices.Equal(got, []int32{0}) {
		t.Errorf("at least one: %v", got)
	}
}
