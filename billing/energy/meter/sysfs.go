package meter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	powercapRoot = "/sys/class/powercap"
	hwmonRoot    = "/sys/class/hwmon"
	procRoot     = "/proc"

	// mostOfZone is what one socket, or its memory, can take at most, with room.
	mostOfZone = 2_000_000
)

var (
	raplZone    = regexp.MustCompile(`^intel-rapl(-mmio)?:(\d+)(:\d+)?$`)
	raplPackage = regexp.MustCompile(`^package-\d+(-die-\d+)?$`)
)

// raplZones finds the zones below a powercap directory (Documentation/power/powercap in the kernel) that add up to the processors and
// their memory, each once: the packages, and the dram in each. Other zones are parts of a package (core, uncore), hold the packages (psys),
// or are the same registers by another way (intel-rapl-mmio beside intel-rapl).
func raplZones(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	type found struct{ dir, name, of string }
	zones := map[bool][]found{}
	for _, e := range entries {
		m := raplZone.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		name, err := readText(filepath.Join(root, e.Name(), "name"))
		if err != nil {
			return nil, err
		}
		mmio, part := m[1] != "", m[3] != ""
		switch {
		case !part && raplPackage.MatchString(name):
		case part && name == "dram":
		default:
			continue
		}
		zones[mmio] = append(zones[mmio], found{filepath.Join(root, e.Name()), name, m[2]})
	}
	use := zones[false]
	if !slices.ContainsFunc(use, func(f found) bool { return f.name != "dram" }) {
		use = zones[true]
	}
	var out []string
	packages, memory := map[string]bool{}, map[string]bool{}
	for _, f := range use {
		if f.name != "dram" && !packages[f.name] {
			packages[f.name], memory[f.of] = true, true
			out = append(out, f.dir)
		}
	}
	for _, f := range use {
		if f.name == "dram" && memory[f.of] {
			memory[f.of] = false
			out = append(out, f.dir)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no package of a processor", root)
	}
	slices.Sort(out)
	return out, nil
}

// newRAPL reads the counters of processors by the powercap files of Linux. They are readable by root alone since CVE-2020-8694.
func newRAPL(root string) (*counters, error) {
	dirs, err := raplZones(root)
	if err != nil {
		return nil, err
	}
	tops := make([]uint64, len(dirs))
	for i, dir := range dirs {
		if tops[i], err = readNumber(filepath.Join(dir, "max_energy_range_uj")); err != nil {
			return nil, err
		}
		if tops[i] == 0 {
			return nil, fmt.Errorf("%s: max_energy_range_uj is 0", dir)
		}
	}
	names := make([]string, len(dirs))
	for i, dir := range dirs {
		names[i] = filepath.Base(dir)
	}
	return &counters{
		source: Source{Name: strings.Join(names, " "), Method: Measured}, most: mostOfZone,
		read: func() ([]zone, error) {
			out := make([]zone, len(dirs))
			for i, dir := range dirs {
				e, err := readNumber(filepath.Join(dir, "energy_uj"))
				if err != nil {
					return nil, err
				}
				out[i] = zone{names[i], e, tops[i]}
			}
			return out, nil
		},
	}, nil
}

var hwmonSensor = regexp.MustCompile(`^(energy\d+_input|power\d+_(input|average))$`)

// hwmonChip finds the directory of a chip by its name. Two of a name are two chips: the caller has to say which, by the directory itself.
func hwmonChip(root, chip string) (string, error) {
	if d := filepath.Join(root, chip); strings.HasPrefix(chip, "hwmon") {
		_, err := os.Stat(filepath.Join(d, "name"))
		return d, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", err
	}
	found := ""
	for _, e := range entries {
		name, err := readText(filepath.Join(root, e.Name(), "name"))
		if err != nil || name != chip {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("%s and %s are both called %s; name the directory as the chip", filepath.Base(found), e.Name(), chip)
		}
		found = filepath.Join(root, e.Name())
	}
	if found == "" {
		return "", fmt.Errorf("%s has no chip %s", root, chip)
	}
	return found, nil
}

// hwmonEnergy reads the named counters of a chip of the kernel's hardware monitoring (microjoules).
func hwmonEnergy(dir string, sensors []string) *counters {
	return &counters{
		most: mostOfZone,
		read: func() ([]zone, error) {
			out := make([]zone, len(sensors))
			for i, s := range sensors {
				e, err := readNumber(filepath.Join(dir, s))
				if err != nil {
					return nil, err
				}
				out[i] = zone{name: s, energy: e}
			}
			return out, nil
		},
	}
}

// hwmonPower reads the named powers of a chip (microwatts) and returns milliwatts.
func hwmonPower(dir string, sensors []string) (int64, error) {
	var sum uint64
	for _, s := range sensors {
		uw, err := readNumber(filepath.Join(dir, s))
		if err != nil {
			return 0, err
		}
		if uw > MaxMilliwatts*1000 {
			return 0, fmt.Errorf("%s: %d µW", s, uw)
		}
		sum += uw
	}
	return int64(sum / 1000), nil
}

// processorTimes reads how long the processors worked and idled, in ticks, from the first line of /proc/stat. Time for guests is in user and
// nice already, so it is not added; waiting for a disk is idling.
func processorTimes(root string) (busy, all uint64, err error) {
	text, err := readText(filepath.Join(root, "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(text)
}

func parseStat(text string) (busy, all uint64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return 0, 0, errors.New("stat: its first line is not of all processors")
	}
	for i, f := range fields[1:min(len(fields), 9)] {
		n, err := number(f)
		if err != nil || n > 1<<56 {
			return 0, 0, errors.New("stat: a time is no number")
		}
		all += n
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, all, nil
}

// maxFile bounds what is read of a file of the kernel.
const maxFile = 64 << 10

func readText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

func readNumber(path string) (uint64, error) {
	text, err := readText(path)
	if err != nil {
		return 0, err
	}
	n, err := number(text)
	if err != nil {
		return 0, fmt.Errorf("%s: not a number", path)
	}
	return n, nil
}

// number reads decimal digits and nothing else.
func number(text string) (uint64, error) {
	if strings.HasPrefix(text, "+") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(text, 10, 64)
}
