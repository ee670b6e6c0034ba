package native

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/gguf"
)

// boundThreads returns the threads of this process that may run on one processor alone.
func boundThreads(t *testing.T, cpu int) []string {
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		status, _ := os.ReadFile(f) // a thread that has ended
		for line := range strings.Lines(string(status)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok && strings.TrimSpace(list) == strconv.Itoa(cpu) {
				out = append(out, f)
			}
		}
	}
	return out
}

// The thread that computes, and draws tokens, runs on the processors that were named, and so do the workers, and no other thread.
func TestThreadsAreBound(t *testing.T) {
	machine, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	if len(machine.allowed) < 2 {
		t.Skip("one processor: everything runs on it")
	}
	cpu := machine.allowed[len(machine.allowed)-1]
	before := boundThreads(t, cpu) // of other tests: a thread ends a moment after its goroutine
	const threads = 3
	e := openTiny(t, newTiny(gguf.Q8_0), Config{CPUs: strconv.Itoa(cpu), Threads: threads})
	var own []string
	begin := time.Now()
	req := &engine.Request{Model: tinyID, Prompt: "hello", MaxTokens: 60, MinTokens: 60, Hook: func(*engine.Draw) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() != 1 || !set.IsSet(cpu) {
			t.Errorf("a token is drawn on a thread that may run on %d processors (%v)", set.Count(), err)
		}
		// Workers that have no processor yet begin while this one waits, and the thread on which the binding was tried ends; unless it is the
		// process's first one, which the runtime keeps asleep.
		first := fmt.Sprintf("/proc/self/task/%d/status", os.Getpid())
		for len(own) != threads && time.Since(begin) < 10*time.Second {
			runtime.Gosched()
			own = slices.DeleteFunc(boundThreads(t, cpu), func(f string) bool { return slices.Contains(before, f) })
			if len(own) == threads+1 {
				own = slices.DeleteFunc(own, func(f string) bool { return f == first })
			}
		}
		return nil
	}}
	for _, err := range enginetest.Ask(t.Context(), e, req) {
		if err != nil {
			t.Fatal(err)
		}
	}
	settled(t, e)
	if len(own) != threads {
		t.Errorf("%d threads were bound, want %d", len(own), threads)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// Without a number, as many threads compute as there are processors for them.
func TestThreadsOfAPlace(t *testing.T) {
	machine, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	c := Config{CPUs: strconv.Itoa(machine.allowed[0])}
	if p, err := c.settle(log); err != nil || c.Threads != 1 || !p.bound() {
		t.Errorf("%+v, %d threads, %v", p, c.Threads, err)
	}
	c = Config{CPUs: strconv.Itoa(maxCPU - 1)}
	if _, err := c.settle(log); err == nil || !strings.Contains(err.Error(), "may use the processors") {
		t.Errorf("a processor that is not there: %v", err)
	}
	if d := (Config{}).withDefaults().Threads; d != runtime.GOMAXPROCS(0) {
		t.Errorf("%d threads by default, but Go runs %d at a time", d, runtime.GOMAXPROCS(0))
	}
}

// A node on a machine with one is said to change nothing; on others the system takes the mask as it is.
func TestNode(t *testing.T) {
	machine, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	node := 0
	c := Config{NUMANode: "0"}
	p, err := c.settle(log)
	if err != nil {
		t.Fatal(err)
	}
	if one := len(machine.nodes) < 2; one == p.bound() || one != strings.Contains(out.String(), "has no effect") {
		t.Errorf("%d nodes: bound %v, log %q", len(machine.nodes), p.bound(), out.String())
	}
	if len(machine.nodes) == 0 {
		t.Skip("a kernel without NUMA")
	}
	p = cpuSet{node: &node, log: log}
	if err := p.tryBind(); err != nil {
		t.Errorf("bind to the memory of node 0: %v", err)
	}
	mem, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	mem[5] = 1
	if err := p.fetch(mem); err != nil || mem[5] != 1 {
		t.Errorf("fetch memory to node 0: %v", err)
	}
	if err := unix.Munmap(mem); err != nil {
		t.Error(err)
	}
}
