package local

import "syscall"

// attributes let a worker die with the process that started it, and keep the signals of its terminal away from it: it is drained first.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
