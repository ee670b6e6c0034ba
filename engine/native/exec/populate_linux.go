//go:build linux

package exec

import "golang.org/x/sys/unix"

const mapPopulate = unix.MAP_POPULATE
