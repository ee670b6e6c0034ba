//go:build unix && !linux

package exec

const mapPopulate = 0
