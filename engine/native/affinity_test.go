package native

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "8,0-1": {0, 1, 8}, "2,2,1-2": {1, 2}, "1023": {1023}, " 0 , 2\n": {0, 2},
	} {
		if got, err := parseCPUs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", list, got, err, want)
		}
	}
	for _, bad := range []string{"", "-", "a", "3-1", "1024", "0-1024", "0,,1", "-1", "0-", "1-2-3", "+1", "0x1", "99999999999999999999"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	f.Add("0-3,8")
	f.Add("1023")
	f.Add("5-")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := parseCPUs(list)
		if err != nil {
			return
		}
		if len(cpus) == 0 || !slices.IsSorted(cpus) || cpus[len(cpus)-1] >= maxCPU {
			t.Fatalf("%q was read as %v", list, cpus)
		}
		if again, err := parseCPUs(formatCPUs(cpus)); err != nil || !slices.Equal(again, cpus) {
			t.Errorf("%v is written as %q, which is %v, %v", cpus, formatCPUs(cpus), again, err)
		}
	})
}

// sys makes a tree such as /sys: what the files of processors say, by folder of the nodes.
func sys(nodes map[string]string) fstest.MapFS {
	out := fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0-7\n")}}
	for name, list := range nodes {
		out["devices/system/node/"+name+"/cpulist"] = &fstest.MapFile{Data: []byte(list)}
	}
	return out
}

func TestReadNodes(t *testing.T) {
	for name, c := range map[string]struct {
		tree fstest.MapFS
		want string // node:processors
		fail bool
	}{
		"two":              {sys(map[string]string{"node0": "0-3\n", "node1": "4-7\n", "power": ""}), "0:0-3 1:4-7", false},
		"interleaved":      {sys(map[string]string{"node0": "0,2,4\n", "node8": "1,3\n"}), "0:0,2,4 8:1,3", false},
		"memory alone":     {sys(map[string]string{"node0": "0-7\n", "node1": "\n"}), "0:0-7", false},
		"no NUMA":          {fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0\n")}}, "", false},
		"nonsense":         {sys(map[string]string{"node0": "many\n"}), "", true},
		"other folders":    {sys(map[string]string{"node0": "0\n", "nodes": "1\n", "node": "2\n"}), "0:0", false},
		"a file too short": {fstest.MapFS{"devices/system/node/node0/meminfo": {}}, "", true},
	} {
		nodes, err := readNodes(c.tree)
		if (err != nil) != c.fail {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, n := range numbers(nodes) {
			got = append(got, formatCPUs([]int{n})+":"+formatCPUs(nodes[n]))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func TestNewPlace(t *testing.T) {
	two := cpuTopology{allowed: []int{0, 1, 2, 3, 4, 5}, nodes: map[int][]int{0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}, 2: {8}}}
	one := cpuTopology{allowed: []int{0, 1}, nodes: map[int][]int{0: {0, 1}}}
	node := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		cpus  string
		node  *int
		t     cpuTopology
		want  string // processors
		bound bool   // to memory
		note  bool
		fail  string
	}{
		"nothing":                  {"", nil, two, "", false, false, ""},
		"processors":               {"1-2", nil, two, "1-2", false, false, ""},
		"a foreign processor":      {"1,6", nil, two, "", false, false, "names 6, but this process may use the processors 0-5 only"},
		"a node":                   {"", node(0), two, "0-3", true, false, ""},
		"a node that is half ours": {"", node(1), two, "4-5", true, false, ""},
		"a node of others":         {"", node(2), two, "", false, false, "none of its processors (8)"},
		"no such node":             {"", node(3), two, "", false, false, "has the nodes 0-2"},
		"both":                     {"2-3", node(0), two, "2-3", true, false, ""},
		"they contradict":          {"2-4", node(0), two, "", false, false, "names 4, which NUMA node 0 does not have"},
		"one node":                 {"", node(0), one, "", false, true, ""},
		"one node, no such":        {"", node(5), one, "", false, true, ""},
		"one node and processors":  {"1", node(0), one, "1", false, true, ""},
		"nonsense":                 {"all", nil, one, "", false, false, "engines.native.cpus"},
	} {
		p, note, err := newPlace(c.cpus, c.node, c.t)
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v, want %q", name, err, c.fail)
			}
			continue
		}
		if err != nil || formatCPUs(p.cpus) != c.want || (p.node != nil) != c.bound || (note != "") != c.note {
			t.Errorf("%s: %v, node %v, note %q, %v", name, formatCPUs(p.cpus), p.node, note, err)
		}
	}
}
