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
const probeDigest = "64b4fc8fb5d2eccbe796c42657c727cedeb3d96be92d1c6e5cc2e6ffb357b396"

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
