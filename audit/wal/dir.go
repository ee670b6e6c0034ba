package wal

import "path/filepath"

// Dir is where the segments are in the directory of an audit log.
func Dir(dir string) string { return filepath.Join(dir, "wal") }
