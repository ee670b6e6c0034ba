// Package cpuname is a leaf that names the processor of this machine, for benchmarks and for what is measured once for each kind.
package cpuname

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Read returns the name of the processor as far as the system tells it, else "unknown CPU".
func Read() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // absent elsewhere; then the name is unknown
	return parse(info)
}

// parse reads the name of the first processor: x86 and LoongArch have one, ARM has the numbers of the maker and the part.
func parse(info []byte) string {
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
