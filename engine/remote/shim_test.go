package remote

import "github.com/sluice-project/sluice/engine"

func wireForTest(m ModelConfig, q *engine.Request) (string, any, error) { return wire(m, q) }
