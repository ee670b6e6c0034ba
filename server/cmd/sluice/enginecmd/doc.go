// Package enginecmd has the commands about engines behind the gateway: their profiles, simulators of them, and the cases that show how far one keeps to its
// profile. They need no server.
package enginecmd
