package native

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// cpuSet is where the engine's threads run and where they take memory from. The zero value is anywhere.
type cpuSet struct {
	cpus []int // processors; none: any
	node *int  // NUMA node whose memory is preferred; nil: any
	log  *slog.Logger
}

// cpuTopology is what a place is chosen from.
type cpuTopology struct {
	allowed []int         // processors that this process may run on
	nodes   map[int][]int // processors by NUMA node
}

// maxCPU bounds the numbers of processors: what the kernel's own sets hold.
const maxCPU = 1024

// parseCPUs reads a list of processors such as "0-3,8", as the kernel writes them. The result is sorted and has each once.
func parseCPUs(list string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		to, toErr := strconv.ParseUint(high, 10, 16)
		if err != nil || toErr != nil || from > to || to >= maxCPU {
			return nil, fmt.Errorf("%.20q is no processor and no range of them; write, for example, 0-3,8 (the highest is %d)", part, maxCPU-1)
		}
		for cpu := int(from); cpu <= int(to); cpu++ {
			out = append(out, cpu)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// parseNode reads the number of a NUMA node, nil for "".
func parseNode(text string) (*int, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n >= maxCPU {
		return nil, fmt.Errorf("%.20q is no number of a node; write one from 0 to %d, or nothing for any", text, maxCPU-1)
	}
	node := int(n)
	return &node, nil
}

// readNodes returns the processors of every NUMA node that has some; sys is the file system at /sys.
func readNodes(sys fs.FS) (map[int][]int, error) {
	const dir = "devices/system/node"
	entries, err := fs.ReadDir(sys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without NUMA
	}
	if err != nil {
		return nil, err
	}
	nodes := map[int][]int{}
	for _, e := range entries {
		number, isNode := strings.CutPrefix(e.Name(), "node")
		node, err := strconv.Atoi(number)
		if !isNode || err != nil {
			continue
		}
		list, err := fs.ReadFile(sys, dir+"/"+e.Name()+"/cpulist")
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(string(list)) == "" {
			continue // memory alone
		}
		if nodes[node], err = parseCPUs(string(list)); err != nil {
			return nil, fmt.Errorf("processors of NUMA node %d: %w", node, err)
		}
	}
	return nodes, nil
}

// newPlace finds the place that a configuration names. note says what of it has no effect on this machine.
func newPlace(cpus string, node *int, t cpuTopology) (p cpuSet, note string, err error) {
	if cpus == "" && node == nil {
		return cpuSet{}, "", nil
	}
	p.cpus = t.allowed
	if cpus != "" {
		if p.cpus, err = parseCPUs(cpus); err != nil {
			return cpuSet{}, "", fmt.Errorf("engines.native.cpus: %w", err)
		}
		if foreign := without(p.cpus, t.allowed); len(foreign) > 0 {
			return cpuSet{}, "", fmt.Errorf("engines.native.cpus names %s, but this process may use the processors %s only", formatCPUs(foreign), formatCPUs(t.allowed))
		}
	}
	if node == nil {
		return p, "", nil
	}
	if len(t.nodes) < 2 {
		if cpus == "" {
			p.cpus = nil
		}
		return p, "engines.native.numa_node has no effect: the machine has one NUMA node", nil
	}
	own, ok := t.nodes[*node]
	if !ok {
		return cpuSet{}, "", fmt.Errorf("engines.native.numa_node is %d, but the machine has the nodes %s", *node, formatCPUs(numbers(t.nodes)))
	}
	if foreign := without(p.cpus, own); cpus != "" && len(foreign) > 0 {
		return cpuSet{}, "", fmt.Errorf("engines.native.cpus names %s, which NUMA node %d does not have; its processors are %s", formatCPUs(foreign), *node, formatCPUs(own))
	}
	if p.cpus = without(p.cpus, without(p.cpus, own)); len(p.cpus) == 0 {
		return cpuSet{}, "", fmt.Errorf("engines.native.numa_node is %d, but this process may use none of its processors (%s)", *node, formatCPUs(own))
	}
	p.node = node
	return p, "", nil
}

// without returns the numbers of all that are not in some.
func without(all, some []int) []int {
	return slices.DeleteFunc(slices.Clone(all), func(n int) bool { return slices.Contains(some, n) })
}

func numbers(nodes map[int][]int) []int {
	var out []int
	for n := range nodes {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// formatCPUs writes sorted numbers as the kernel does.
func formatCPUs(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); i++ {
		from := cpus[i]
		for i+1 < len(cpus) && cpus[i+1] == cpus[i]+1 {
			i++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(from))
		if cpus[i] > from {
			b.WriteString("-" + strconv.Itoa(cpus[i]))
		}
	}
	return b.String()
}

// bound reports whether the place is not just anywhere.
func (p cpuSet) bound() bool { return len(p.cpus) > 0 || p.node != nil }

// enter brings the calling goroutine to the place, on a thread of its own. The thread ends with the goroutine, so that no other one
// inherits the binding.
func (p cpuSet) enter() {
	if !p.bound() {
		return
	}
	runtime.LockOSThread()
	if err := p.bind(); err != nil {
		p.log.Warn("a thread of the engine could not be bound and runs anywhere", slog.String("cpus", formatCPUs(p.cpus)), slog.Any("error", err))
	}
}

// tryBind binds a thread that is thrown away.
func (p cpuSet) tryBind() error {
	if !p.bound() {
		return nil
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- p.bind()
	}()
	err := <-done
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: the sandbox of this process forbids it; allow it there (a container needs the capability SYS_NICE for numa_node), or leave engines.native.cpus and numa_node empty and bind the process from outside", err)
	}
	if err != nil {
		return fmt.Errorf("bind the engine's threads: %w", err)
	}
	return nil
}

// settle finds the place of a configuration on this machine, and takes from it how many threads compute where that is not said.
func (c *Config) settle(log *slog.Logger) (cpuSet, error) {
	node, err := parseNode(c.NUMANode)
	if err != nil || c.CPUs == "" && node == nil {
		return cpuSet{}, err
	}
	t, err := readTopology()
	if err != nil {
		return cpuSet{}, err
	}
	p, note, err := newPlace(c.CPUs, node, t)
	if err != nil {
		return cpuSet{}, err
	}
	p.log = log
	if note != "" {
		log.Info(note)
	}
	if c.Threads == 0 && len(p.cpus) > 0 {
		c.Threads = min(len(p.cpus), runtime.GOMAXPROCS(0))
	}
	return p, p.tryBind()
}
