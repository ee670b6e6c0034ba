//go:build !linux

package native

import "errors"

func readTopology() (cpuTopology, error) {
	return cpuTopology{}, errors.New("engines.native.cpus and numa_node are known on Linux only; leave them empty")
}

func (cpuSet) bind() error { return nil }

func (cpuSet) fetch([]byte) error { return nil }
