package native

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory is the main memory in bytes that this process may use: the machine's, or what its control group allows.
func memory() int {
	total := unknownMemory
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		total = int(info.Totalram) * int(info.Unit)
	}
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return total
	}
	return min(total, groupLimit(string(group), func(name string) (string, error) {
		data, err := os.ReadFile("/sys/fs/cgroup" + name)
		return string(data), err
	}, total))
}

// groupLimit is the least memory limit of a process's control groups and of those above them, in version 2 or 1, or otherwise. group is
// /proc/self/cgroup, read reads files below the mount of the control groups.
func groupLimit(group string, read func(name string) (string, error), otherwise int) int {
	limit := otherwise
	note := func(name string) {
		text, err := read(name)
		if n, parseErr := strconv.Atoi(strings.TrimSpace(text)); err == nil && parseErr == nil && n > 0 {
			limit = min(limit, n)
		}
	}
	for line := range strings.Lines(group) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		prefix, file := "", "memory.max"
		switch {
		case parts[0] == "0" && parts[1] == "":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			prefix, file = "/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			note(path.Join(prefix, dir, file))
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
