package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	schemaV1 = 1
	schemaV2 = 2
	// Schema is the version that Encode writes.
	Schema = schemaV2
	// MaxPayload is the largest entry the C2SP tlog-tiles format can export.
	MaxPayload = 1<<16 - 1
)

// Encode returns the canonical payload of e. It is a fixed point: decoding and encoding again gives the same bytes.
func Encode(e Event) ([]byte, error) {
	b, err := marshal(toV2(e))
	if err != nil {
		return nil, err
	}
	// The encoder writes ill-formed UTF-8 as an escape but the decoded replacement character as itself; a second round settles it.
	if bytes.Contains(b, []byte(`\ufffd`)) {
		again, err := Decode(b)
		if err != nil {
			return nil, err
		}
		if b, err = marshal(toV2(again)); err != nil {
			return nil, err
		}
	}
	if len(b) > MaxPayload {
		return nil, fmt.Errorf("encode audit event: %d bytes, at most %d fit one record", len(b), MaxPayload)
	}
	return b, nil
}

func marshal(v eventV2) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode audit event: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Decode reads a payload of any known schema version.
func Decode(payload []byte) (Event, error) {
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return Event{}, fmt.Errorf("decode audit event: %w", err)
	}
	switch head.Schema {
	case schemaV1:
		v, err := strictly[eventV1](payload)
		return fromV1(v), err
	case schemaV2:
		v, err := strictly[eventV2](payload)
		return fromV2(v), err
	default:
		return Event{}, fmt.Errorf("decode audit event: schema %d is unknown to this release", head.Schema)
	}
}

// strictly decodes one JSON value of known fields with nothing behind it.
func strictly[T any](payload []byte) (v T, err error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return *new(T), fmt.Errorf("decode audit event: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return *new(T), errors.New("decode audit event: bytes follow the record")
	}
	return v, nil
}
