package enginebench

import (
	"runtime"

	"github.com/sluice-project/sluice/internal/cpuname"
)

// Machine says where something was measured.
type Machine struct {
	CPU        string `json:"cpu"`
	Processors int    `json:"processors"`
	Platform   string `json:"platform"`
	Go         string `json:"go"`
}

// ThisMachine describes the machine of this process.
func ThisMachine() Machine {
	return Machine{CPU: cpuname.Read(), Processors: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
}
