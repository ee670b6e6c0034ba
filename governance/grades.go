package governance

import (
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/classify"
)

// maxGrade is that of the most sensitive values; the lowest is 1.
const maxGrade = 5

// grade returns how sensitive a class is, from 1 to 5. What the policy does not grade is the most sensitive.
func (p *policy) grade(c classify.Class) int {
	for _, name := range []string{string(c), classDefault} {
		if g, ok := p.Grades[name]; ok {
			return g
		}
	}
	return maxGrade
}

func (p *policy) readGrades(n *yaml.Node, path string) error {
	p.Grades = map[string]int{}
	var fields []field
	for _, class := range append(p.classNames(), classDefault) {
		fields = append(fields, field{class, false, func(n *yaml.Node, path string) error {
			var g int
			err := number(&g, 1, maxGrade)(n, path)
			p.Grades[class] = g
			return err
		}})
	}
	return object(n, path, fields)
}
