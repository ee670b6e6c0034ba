//go:build !linux

package devserver

import "syscall"

// attributes puts the child into a process group of its own, so that Ctrl-C in a terminal reaches us first. There is no death
// signal here: after a kill -9 of the parent the child must be stopped by hand.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
