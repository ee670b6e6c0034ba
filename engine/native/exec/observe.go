package exec

import "github.com/sluice-project/sluice/engine/kernel"

// observe shows the inputs of a product to whoever asked for them.
func (p *Pass) observe(s *step) {
	if p.Observe == nil || s.in[0].input != kernel.Dense {
		return
	}
	for i := range p.n {
		p.Observe(s.matrix, p.row(&s.in[0], i))
	}
}
