// Package maskcmd has the commands that mask files and score the detectors. They need no server.
package maskcmd
