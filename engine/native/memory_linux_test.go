package native

import (
	"errors"
	"testing"
)

// The least limit on the way up counts, in both versions of control groups; words such as "max" are no limit.
func TestGroupLimit(t *testing.T) {
	const machine = 64 << 30
	for name, c := range map[string]struct {
		group string
		files map[string]string
		want  int
	}{
		"none":          {"0::/\n", nil, machine},
		"version 2":     {"0::/a/b\n", map[string]string{"/a/b/memory.max": "max\n", "/a/memory.max": "2147483648\n"}, 2 << 30},
		"own namespace": {"0::/\n", map[string]string{"/memory.max": "1073741824\n"}, 1 << 30},
		"version 1":     {"5:cpu,cpuacct:/x\n4:memory:/x\n", map[string]string{"/memory/x/memory.limit_in_bytes": "536870912", "/memory.max": "1"}, 512 << 20},
		"no limit":      {"4:memory:/\n", map[string]string{"/memory/memory.limit_in_bytes": "9223372036854771712"}, machine},
		"nonsense":      {"nonsense\n0::/\n", map[string]string{"/memory.max": "-5"}, machine},
	} {
		got := groupLimit(c.group, func(name string) (string, error) {
			text, ok := c.files[name]
			if !ok {
				return "", errors.New("no such file")
			}
			return text, nil
		}, machine)
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
