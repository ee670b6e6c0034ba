package gguf

import "encoding/binary"

// KBlock is a super-block of Q4_K or Q5_K taken apart, nothing rounded: 256 elements in eight groups of 32. Element j of group g
// has the value D·Scales[g]·Q[32g+j] − DMin·Offsets[g].
type KBlock struct {
	D, DMin uint16     // bits of half-precision numbers
	Scales  [8]uint8   // 6 bits
	Offsets [8]uint8   // 6 bits
	Q       [256]uint8 // 4 bits in Q4_K, 5 in Q5_K
}

// Decode reads the super-block that src, as [Tensor.Raw] gives it, begins with. It panics when src is shorter than that, like
// indexing. t must be Q4_K or Q5_K.
func (k *KBlock) Decode(t Type, src []byte) {
	le := binary.LittleEndian
	k.D, k.DMin = le.Uint16(src), le.Uint16(src[2:])
	for g := range 8 {
		k.Scales[g], k.Offsets[g] = groupScale(src[4:16], g)
	}
	if t == Q5_K {
		decodeNibbles(&k.Q, src[48:176])
		for j, bits := range src[16:48] {
			for g := range 8 {
				k.Q[g*32+j] |= bits >> g & 1 << 4
			}
		}
		return
	}
	decodeNibbles(&k.Q, src[16:144])
}

// decodeNibbles: each 32 bytes hold the elements of one group in their low halves and of the next in their high halves.
func decodeNibbles(q *[256]uint8, src []byte) {
	for i, v := range src[:128] {
		at := i/32*64 + i%32
		q[at], q[at+32] = v&15, v>>4
	}
}

// groupScale reads the g-th pair of 6-bit numbers from the 12 bytes of a Q4_K or Q5_K block.
func groupScale(s []byte, g int) (scale, offset byte) {
	if g < 4 {
		return s[g] & 63, s[g+4] & 63
	}
	return s[g+4]&15 | s[g-4]>>6<<4, s[g+4]>>4 | s[g]>>6<<4
}

// Q6KBlock is a super-block of Q6_K taken apart, nothing rounded: 256 elements in sixteen groups of 16. Element j of group g has the
// value D·Scales[g]·Q[16g+j].
type Q6KBlock struct {
	D      uint16 // bits of a half-precision number
	Scales [16]int8
	Q      [256]int8 // −32 to 31
}

// Decode reads the super-block that src, as [Tensor.Raw] gives it, begins with. It panics when src is shorter than that, like
// indexing.
func (k *Q6KBlock) Decode(src []byte) {
	low, high := src[:128], src[128:192]
	for i, v := range src[192:208] {
		k.Scales[i] = int8(v)
	}
	k.D = binary.LittleEndian.Uint16(src[208:])
	for half := range 2 { // each four runs of 32
		low, high, q := low[half*64:half*64+64], high[half*32:half*32+32], k.Q[half*128:half*128+128]
		for j, h := range high {
			a, b := low[j], low[j+32]
			q[j] = int8(a&15|h<<4&0x30) - 32
			q[j+32] = int8(b&15|h<<2&0x30) - 32
			q[j+64] = int8(a>>4|h&0x30) - 32
			q[j+96] = int8(b>>4|h>>2&0x30) - 32
		}
	}
}
