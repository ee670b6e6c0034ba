//go:build !linux

package worker

import "net"

// checkPeer looks at nothing: here the directory of the socket alone says who may connect.
func checkPeer(net.Conn, int) error { return nil }
