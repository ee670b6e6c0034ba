//go:build !linux

package local

import "syscall"

// attributes keep the signals of the terminal away from a worker: it is drained first.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
