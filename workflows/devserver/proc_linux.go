package devserver

import "syscall"

// attributes puts the child into a process group of its own, so that Ctrl-C in a terminal reaches us first, and lets the kernel
// kill it when we are gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
