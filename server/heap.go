package server

import "os"

// heapFloor is how far the heap grows before garbage is collected the first time, roughly twice over.
const heapFloor = 32 << 20

// ballast returns memory that is never touched, so that it takes none, and that the collector counts: the heap of a server without a model of its
// own is so small that it would be collected hundreds of times a second, for an eighth of the processor time. Whoever sets GOGC or
// GOMEMLIMIT decides by himself.
func ballast() []byte {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	return make([]byte, heapFloor)
}
