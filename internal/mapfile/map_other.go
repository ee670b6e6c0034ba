//go:build !unix

package mapfile

import (
	"fmt"
	"os"
)

// Open reads the whole file at path where the system offers no map that this build knows.
func Open(path string) ([]byte, func() error, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = fmt.Errorf("%s is empty; fetch it again", path)
	}
	return data, func() error { return nil }, err
}

// OpenOwn is Open on systems whose owners and links this build does not know.
func OpenOwn(path string) ([]byte, func() error, error) { return Open(path) }
