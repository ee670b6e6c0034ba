package grammar

// meter bounds work and counts memory. Work is a panic away from its limit deep inside recursions; guard turns that into the error it
// carries. Tables keep a result only once it is complete, so that an interrupted computation leaves nothing wrong behind.
type meter struct {
	left int   // steps
	over error // what running out of them means
	used int   // bytes kept, about
}

// stepBytes is how much memory costs a step: it bounds what one call can allocate.
const stepBytes = 16

type overrun struct{ err error }

func (m *meter) limit(steps int, over error) { m.left, m.over = steps, over }

func (m *meter) spend(n int) {
	if m.left -= n; m.left < 0 {
		panic(overrun{m.over})
	}
}

// keep counts n bytes that stay.
func (m *meter) keep(n int) {
	m.used += n
	m.spend(n / stepBytes)
}

// guard recovers from an overrun; everything else panics on.
func guard(err *error) {
	switch r := recover().(type) {
	case nil:
	case overrun:
		*err = r.err
	default:
		panic(r)
	}
}
