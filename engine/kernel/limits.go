package kernel

import "encoding/binary"

// Products per round of the assembly's loops.
const (
	roundAVX2   = 6 * 32
	roundAVX512 = 12 * 64
	readRound   = 512
)

// MultiplyLoop multiplies and adds int8 numbers in registers, with nothing else in the way, and returns how many products that
// were: about n, at most a few million. Its speed is the multiply limit of a core in this tier.
func (k Kernels) MultiplyLoop(n int) int {
	switch {
	case k.avx512:
		rounds := max(1, min(n, 8<<20)/roundAVX512)
		multiplyAVX512(rounds)
		return rounds * roundAVX512
	case k.avx2:
		rounds := max(1, min(n, 4<<20)/roundAVX2)
		multiplyAVX2(rounds)
		return rounds * roundAVX2
	default:
		return refMultiplyLoop(min(n, 1<<16))
	}
}

// refMultiplyLoop multiplies what the reference would, from the first cache.
func refMultiplyLoop(n int) int {
	var a, b [32]int8
	rounds, sum := max(1, n/len(a)), int32(0)
	for i := range rounds {
		a[i%len(a)]++
		for j, v := range a {
			sum += int32(v) * int32(b[j])
		}
	}
	if sum != 0 { // keeps the compiler from leaving the loop out
		return 0
	}
	return rounds * len(a)
}

// ReadLoop loads all of mem but a rest of less than 512 bytes, with nothing else in the way, and returns how many bytes that were.
// Its speed on memory larger than the caches is the read limit.
func (k Kernels) ReadLoop(mem []byte) int {
	n := len(mem) / readRound * readRound
	for at := 0; at < n; at += tokenWork {
		rounds := min(tokenWork, n-at) / readRound
		switch {
		case k.avx512:
			readAVX512(&mem[at], rounds)
		case k.avx2:
			readAVX2(&mem[at], rounds)
		default:
			refReadLoop(mem[at : at+rounds*readRound])
		}
	}
	return n
}

func refReadLoop(mem []byte) {
	sum := uint64(0)
	for ; len(mem) >= 32; mem = mem[32:] {
		sum |= binary.LittleEndian.Uint64(mem) | binary.LittleEndian.Uint64(mem[8:]) | binary.LittleEndian.Uint64(mem[16:]) | binary.LittleEndian.Uint64(mem[24:])
	}
	if len(mem) == 1 && sum == 1 { // keeps the compiler from leaving the loop out
		panic(sum)
	}
}
