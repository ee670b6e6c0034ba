package gguf

import (
	"encoding/binary"
	"math"
)

// dequantize writes the values of whole blocks. Products and sums round to float32 one by one, as the format's reference does.
func dequantize(t Type, src []byte, dst []float32) {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = fromHalf(le.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16)
		}
	case Q2_K:
		for i := 0; i < len(dst); i += 256 {
			dequantQ2K(src[i/256*84:], dst[i:i+256])
		}
	case Q3_K:
		for i := 0; i < len(dst); i += 256 {
			dequantQ3K(src[i/256*110:], dst[i:i+256])
		}
	case Q6_K:
		for i := 0; i < len(dst); i += 256 {
			dequantQ6K(src[i/256*210:], dst[i:i+256])
		}
	default:
		dequantBlocks(t, src, dst)
	}
}

// dequantBlocks goes through unpack, 256 elements at a time, so each of these types is decoded in one place.
func dequantBlocks(t Type, src []byte, dst []float32) {
	var q [256]int8
	var d, m [8]float32
	l, _ := t.layout()
	for len(dst) > 0 {
		n := min(len(dst), 256)
		unpack(t, src[:n/l.elements*l.bytes], q[:n], d[:], m[:])
		for i := range n {
			dst[i] = float32(d[i/32]*float32(q[i])) + m[i/32]
		}
		src, dst = src[n/l.elements*l.bytes:], dst[n:]
	}
}

// unpack splits whole blocks into integers, scales and offsets: value = d·q + m. All of d and m are exact.
func unpack(t Type, src []byte, q []int8, d, m []float32) {
	le := binary.LittleEndian
	l, _ := t.layout()
	for i, b := 0, 0; i < len(q); i, b = i+l.elements, b+1 {
		blk := src[b*l.bytes : (b+1)*l.bytes]
		switch t {
		case Q4_0:
			d[b] = fromHalf(le.Uint16(blk))
			m[b] = -8 * d[b]
			nibbles(q[i:i+32], blk[2:18])
		case Q4_1:
			d[b], m[b] = fromHalf(le.Uint16(blk)), fromHalf(le.Uint16(blk[2:]))
			nibbles(q[i:i+32], blk[4:20])
		case Q5_0:
			d[b], m[b] = fromHalf(le.Uint16(blk)), 0
			nibbles(q[i:i+32], blk[6:22])
			fifthBits(q[i:i+32], le.Uint32(blk[2:]))
			for j := range q[i : i+32] {
				q[i+j] -= 16
			}
		case Q5_1:
			d[b], m[b] = fromHalf(le.Uint16(blk)), fromHalf(le.Uint16(blk[2:]))
			nibbles(q[i:i+32], blk[8:24])
			fifthBits(q[i:i+32], le.Uint32(blk[4:]))
		case Q8_0:
			d[b], m[b] = fromHalf(le.Uint16(blk)), 0
			for j := range 32 {
				q[i+j] = int8(blk[2+j])
			}
		case Q4_K, Q5_K:
			unpackK(t, blk, q[i:i+256], d[8*b:8*b+8], m[8*b:8*b+8])
		default: // not in blocks: see HasBlocks
		}
	}
}

// nibbles writes the low halves of src to elements 0–15 and the high halves to 16–31.
func nibbles(q []int8, src []byte) {
	_, _ = q[31], src[15]
	for j := range 16 {
		q[j], q[j+16] = int8(src[j]&15), int8(src[j]>>4)
	}
}

func fifthBits(q []int8, bits uint32) {
	for j := range 32 {
		q[j] |= int8(bits>>j&1) << 4
	}
}

// unpackK reads a Q4_K or Q5_K block: eight groups of 32 with 6-bit scales and offsets.
func unpackK(t Type, blk []byte, q []int8, d, m []float32) {
	var k KBlock
	k.Decode(t, blk)
	scale, offset := fromHalf(k.D), fromHalf(k.DMin)
	for g := range 8 {
		d[g], m[g] = scale*float32(k.Scales[g]), -(offset * float32(k.Offsets[g]))
	}
	for i, v := range k.Q {
		q[i] = int8(v)
	}
}

// dequantQ2K: 16 bytes of 4-bit scales and offsets, 64 bytes of 2-bit values, d, dmin; groups of 16.
func dequantQ2K(blk []byte, y []float32) {
	d, dmin := fromHalf(binary.LittleEndian.Uint16(blk[80:])), fromHalf(binary.LittleEndian.Uint16(blk[82:]))
	for g := range 16 {
		scale, offset := d*float32(blk[g]&15), dmin*float32(blk[g]>>4)
		half, shift, part := g/8, uint(g%8/2*2), g%2*16
		for j := range 16 {
			v := blk[16+half*32+part+j] >> shift & 3
			y[g*16+j] = float32(scale*float32(v)) - offset
		}
	}
}

// dequantQ3K: 32 bytes of third bits (set means: do not subtract 4), 64 bytes of 2-bit values, 16 6-bit scales minus 32, d.
func dequantQ3K(blk []byte, y []float32) {
	d := fromHalf(binary.LittleEndian.Uint16(blk[108:]))
	sc := blk[96:108]
	for g := range 16 {
		low := sc[g%8] >> (g / 8 * 4) & 15
		high := sc[8+g%4] >> (g / 4 * 2) & 3
		scale := d * float32(int(low|high<<4)-32)
		half, shift, part := g/8, uint(g%8/2*2), g%2*16
		for j := range 16 {
			v := int(blk[32+half*32+part+j]>>shift&3) - 4
			v += int(blk[part+j]>>(half*4+g%8/2)&1) * 4
			y[g*16+j] = scale * float32(v)
		}
	}
}

func dequantQ6K(blk []byte, y []float32) {
	var k Q6KBlock
	k.Decode(blk)
	d := fromHalf(k.D)
	for g, sc := range k.Scales {
		scale := float32(d * float32(sc))
		for i := g * 16; i < g*16+16; i++ {
			y[i] = scale * float32(k.Q[i])
		}
	}
}

// fromHalf converts an IEEE half-precision number, exactly.
func fromHalf(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0:
		// Zero and subnormal numbers: frac · 2⁻²⁴.
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
