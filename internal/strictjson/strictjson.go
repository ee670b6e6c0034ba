// Package strictjson reads JSON that must be exactly what was agreed: one value of known fields with nothing behind it.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode reads b into a T.
func Decode[T any](b []byte) (T, error) {
	var v T
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return *new(T), err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return *new(T), errors.New("bytes follow it")
	}
	return v, nil
}
