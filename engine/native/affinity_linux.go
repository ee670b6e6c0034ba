package native

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readTopology asks the kernel.
func readTopology() (cpuTopology, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return cpuTopology{}, os.NewSyscallError("sched_getaffinity", err)
	}
	var t cpuTopology
	for cpu := range maxCPU {
		if set.IsSet(cpu) {
			t.allowed = append(t.allowed, cpu)
		}
	}
	var err error
	t.nodes, err = readNodes(os.DirFS("/sys"))
	return t, err
}

// bind moves the calling thread to the place's processors, and lets it take memory from its node while there is some: memory of another
// node is slower, but none at all would be the end of the process.
func (p cpuSet) bind() error {
	if len(p.cpus) > 0 {
		var set unix.CPUSet
		for _, cpu := range p.cpus {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	if p.node == nil {
		return nil
	}
	mask := nodeMask(*p.node)
	//nolint:gosec // how memory is handed to a system call
	if _, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_PREFERRED, uintptr(unsafe.Pointer(&mask[0])), maxCPU+1); errno != 0 {
		return os.NewSyscallError("set_mempolicy", errno)
	}
	return nil
}

// fetch asks for memory that was mapped already, such as packed weights that were read for their checksum, to be moved to the node.
func (p cpuSet) fetch(mem []byte) error {
	if p.node == nil || len(mem) == 0 {
		return nil
	}
	mask := nodeMask(*p.node)
	//nolint:gosec // how memory is handed to a system call
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), unix.MPOL_PREFERRED,
		uintptr(unsafe.Pointer(&mask[0])), maxCPU+1, unix.MPOL_MF_MOVE)
	if errno != 0 {
		return os.NewSyscallError("mbind", errno)
	}
	return nil
}

// nodeMask is a set of nodes as system calls take it. The kernel does not look at the last bit of what it is told the mask has.
func nodeMask(node int) [maxCPU/64 + 1]uint64 {
	var mask [maxCPU/64 + 1]uint64
	mask[node/64] = 1 << (node % 64)
	return mask
}
