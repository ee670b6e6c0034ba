package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendValue appends the type number and the value.
func appendValue(b []byte, value any) ([]byte, error) {
	kind, payload, err := encode(value)
	if err != nil {
		return nil, err
	}
	return append(binary.LittleEndian.AppendUint32(b, kind), payload...), nil
}

// encode returns the type number and the bytes of a value.
func encode(value any) (uint32, []byte, error) {
	le := binary.LittleEndian
	switch v := value.(type) {
	case uint8:
		return metaU8, []byte{v}, nil
	case int8:
		return metaI8, []byte{byte(v)}, nil
	case bool:
		if v {
			return metaBool, []byte{1}, nil
		}
		return metaBool, []byte{0}, nil
	case uint16:
		return metaU16, le.AppendUint16(nil, v), nil
	case int16:
		return metaI16, le.AppendUint16(nil, uint16(v)), nil
	case uint32:
		return metaU32, le.AppendUint32(nil, v), nil
	case int32:
		return metaI32, le.AppendUint32(nil, uint32(v)), nil
	case float32:
		return metaF32, le.AppendUint32(nil, math.Float32bits(v)), nil
	case uint64:
		return metaU64, le.AppendUint64(nil, v), nil
	case int64:
		return metaI64, le.AppendUint64(nil, uint64(v)), nil
	case float64:
		return metaF64, le.AppendUint64(nil, math.Float64bits(v)), nil
	case string:
		return metaString, appendString(nil, v), nil
	}
	payload, err := encodeSlice(value)
	return metaArray, payload, err
}

func encodeSlice(value any) ([]byte, error) {
	switch v := value.(type) {
	case []uint8:
		return encodeArray(metaU8, v)
	case []int8:
		return encodeArray(metaI8, v)
	case []bool:
		return encodeArray(metaBool, v)
	case []uint16:
		return encodeArray(metaU16, v)
	case []int16:
		return encodeArray(metaI16, v)
	case []uint32:
		return encodeArray(metaU32, v)
	case []int32:
		return encodeArray(metaI32, v)
	case []float32:
		return encodeArray(metaF32, v)
	case []uint64:
		return encodeArray(metaU64, v)
	case []int64:
		return encodeArray(metaI64, v)
	case []float64:
		return encodeArray(metaF64, v)
	case []string:
		return encodeArray(metaString, v)
	case [][]string:
		return encodeArray(metaArray, v)
	case [][]int32:
		return encodeArray(metaArray, v)
	case [][]float32:
		return encodeArray(metaArray, v)
	}
	return nil, fmt.Errorf("a value of type %T cannot be stored", value)
}

func encodeArray[T any](kind uint32, values []T) ([]byte, error) {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values)))
	for _, v := range values {
		_, payload, err := encode(v)
		if err != nil {
			return nil, err
		}
		b = append(b, payload...)
	}
	return b, nil
}
