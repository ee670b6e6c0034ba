package enginebench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
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
	info, _ := os.ReadFile("/proc/cpuinfo") // absent elsewhere; then the name is unknown
	return Machine{CPU: cpuName(info), Processors: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
}

// cpuName reads the name of the first processor: x86 and LoongArch have one, ARM has the numbers of the maker and the part.
func cpuName(info []byte) string {
	parts := map[string]string{}
	for line := range bytes.Lines(info) {
		key, value, ok := strings.Cut(string(line), ":")
		key = strings.ToLower(strings.TrimSpace(key))
		if _, seen := parts[key]; ok && !seen {
			parts[key] = strings.TrimSpace(value)
		}
	}
	switch {
	case parts["model name"] != "" && parts["cpu family"] != "" && parts["model"] != "": // clouds hide the rest of the name
		return fmt.Sprintf("%s (family %s, model %s)", parts["model name"], parts["cpu family"], parts["model"])
	case parts["model name"] != "":
		return parts["model name"]
	case parts["cpu part"] != "":
		return "implementer " + parts["cpu implementer"] + " part " + parts["cpu part"]
	}
	return "unknown CPU"
}
