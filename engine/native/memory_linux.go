package native

import "golang.org/x/sys/unix"

// memory is the machine's main memory in bytes.
func memory() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return unknownMemory
	}
	return int(info.Totalram) * int(info.Unit)
}
