package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// probeDigest is what every kernel gives on one fixed input, on every processor: what the other tests compare with a reference of
// the same build, this compares between architectures. It changes with probe.go and with the order of operations of a kernel.
const probeDigest = "49b9329225ed10d9135c199cb4e988379b914235ae59cd71740beef77ef0601b"

func TestResultsAreTheSameOnEveryArchitecture(t *testing.T) {
	p := newProbe()
	p.run(Generic())
	h := sha256.New()
	for _, v := range p.out {
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != probeDigest {
		t.Errorf("the digest of %d results is %s, not %s: change the constant only if probe.go or a kernel's order of operations changed", len(p.out), got, probeDigest)
	}
}
