//go:build !linux

package siem

import "net"

// acknowledged has no way to ask here: that the receiver closed after us must do.
func acknowledged(*net.TCPConn) error { return nil }
