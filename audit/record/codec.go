package record

import (
	"bytes"
	"fmt"

	"github.com/sluice-project/sluice/internal/strictjson"
)

const (
	schemaV1 = 1
	schemaV2 = 2
	schemaV3 = 3
	// Schema is the version that Encode writes.
	Schema = schemaV3
	// MaxPayload is the largest entry the C2SP tlog-tiles format can export.
	MaxPayload = 1<<16 - 1
)

// Encode returns the canonical payload of e. It is a fixed point: decoding and encoding again gives the same bytes.
func Encode(e Event) ([]byte, error) {
	b := write(&e)
	// The encoder writes ill-formed UTF-8 as an escape but the decoded replacement character as itself; a second round settles it.
	if bytes.Contains(b, []byte(`\ufffd`)) {
		again, err := Decode(b)
		if err != nil {
			return nil, err
		}
		b = write(&again)
	}
	if len(b) > MaxPayload {
		return nil, fmt.Errorf("encode audit event: %d bytes, at most %d fit one record", len(b), MaxPayload)
	}
	return b, nil
}

// Decode reads a payload of any known schema version. Each version begins with its number, so that nothing has to be read twice.
func Decode(payload []byte) (Event, error) {
	begins := schemaOf(payload)
	if begins == schemaV2 || begins == schemaV3 {
		if e, ok := scan(payload); ok {
			return e, nil
		}
	}
	var e Event
	var err error
	switch begins {
	case schemaV1:
		e, err = decode(payload, fromV1)
	case schemaV2:
		e, err = decode(payload, fromV2)
	case schemaV3:
		e, err = decode(payload, fromV3)
	default:
		return Event{}, fmt.Errorf("decode audit event: its schema is unknown to this release: %.24q", payload)
	}
	if err == nil && e.Schema != begins { // it names one a second time
		return Event{}, fmt.Errorf("decode audit event: it begins as schema %d and says it has %d", begins, e.Schema)
	}
	return e, err
}

// schemaOf returns the number that a payload begins with, 0 if it begins otherwise than any version does.
func schemaOf(payload []byte) int {
	rest, ok := bytes.CutPrefix(payload, []byte(`{"schema":`))
	if !ok || len(rest) < 2 || rest[0] < '0' || rest[0] > '9' || rest[1] != ',' && rest[1] != '}' {
		return 0
	}
	return int(rest[0] - '0')
}

// decode reads a payload of the version T.
func decode[T any](payload []byte, event func(T) Event) (Event, error) {
	v, err := strictjson.Decode[T](payload)
	if err != nil {
		return Event{}, fmt.Errorf("decode audit event: %w", err)
	}
	return event(v), nil
}
