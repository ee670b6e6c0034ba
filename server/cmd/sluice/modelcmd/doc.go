// Package modelcmd has the commands about models: fetch, inspect, compile, prune, measure. They need no server.
package modelcmd
