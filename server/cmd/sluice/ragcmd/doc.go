// Package ragcmd has the commands about knowledge bases of a running server.
package ragcmd
