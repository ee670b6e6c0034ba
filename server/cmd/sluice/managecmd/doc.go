// Package managecmd has the commands that administer a running server, with the permissions and the audit records that the console has.
package managecmd
