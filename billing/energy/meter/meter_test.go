package meter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
)

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func set(t *testing.T, root, name string, n uint64) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(strconv.FormatUint(n, 10)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// zoneFiles are the files of one powercap zone.
func zoneFiles(into map[string]string, dir, name, energy, top string) {
	into[dir+"/name"], into[dir+"/energy_uj"], into[dir+"/max_energy_range_uj"] = name, energy, top
}

// twoSockets is a powercap tree of two sockets with their parts, the platform, and the same registers by another way.
func twoSockets(t *testing.T) string {
	files := map[string]string{"intel-rapl/enabled": "1", "dtpm/name": "dtpm"}
	zoneFiles(files, "intel-rapl:0", "package-0", "1000", "262143328850")
	zoneFiles(files, "intel-rapl:0:0", "core", "400", "262143328850")
	zoneFiles(files, "intel-rapl:0:1", "dram", "300", "65712999613")
	zoneFiles(files, "intel-rapl:1", "package-1", "2000", "262143328850")
	zoneFiles(files, "intel-rapl:1:0", "dram", "600", "65712999613")
	zoneFiles(files, "intel-rapl:2", "psys", "9000", "262143328850")
	zoneFiles(files, "intel-rapl-mmio:0", "package-0", "1000", "262143328850")
	return tree(t, files)
}

// moment is so many seconds after the begin.
func moment(s float64) Moment {
	d := time.Duration(s * float64(time.Second))
	return Moment{Mono: d, Wall: time.Unix(1_700_000_000, 0).Add(d)}
}

func mustAdvance(t *testing.T, m Meter, at float64, want int64) {
	t.Helper()
	if got, err := m.Advance(moment(at)); err != nil || got != want {
		t.Errorf("at %v s: %d µJ, %v; want %d", at, got, err, want)
	}
}

func mustGap(t *testing.T, m Meter, at Moment) {
	t.Helper()
	if got, err := m.Advance(at); !errors.Is(err, ErrGap) || got != 0 {
		t.Errorf("%d µJ, %v; want a gap", got, err)
	}
}

// TestRAPLCountsEachJouleOnce: packages and their memory count, parts of packages, the platform and second ways to the same registers do not.
func TestRAPLCountsEachJouleOnce(t *testing.T) {
	root := twoSockets(t)
	m, err := Open(Config{Kind: kindRAPL, Root: root}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Source(); s.Name != "intel-rapl:0 intel-rapl:0:1 intel-rapl:1 intel-rapl:1:0" || s.Method != Measured || s.Node {
		t.Errorf("%+v", s)
	}
	mustAdvance(t, m, 0, 0)
	for dir, n := range map[string]uint64{"intel-rapl:0": 1010, "intel-rapl:0:0": 99_000, "intel-rapl:0:1": 400, "intel-rapl:1": 3000, "intel-rapl:1:0": 10_600, "intel-rapl:2": 99_000, "intel-rapl-mmio:0": 1010} {
		set(t, root, dir+"/energy_uj", n)
	}
	mustAdvance(t, m, 1, 10+100+1000+10_000)

	files := map[string]string{}
	zoneFiles(files, "intel-rapl-mmio:0", "package-0", "5", "262143328850")
	if zones, err := raplZones(tree(t, files)); err != nil || len(zones) != 1 {
		t.Errorf("only by the other way: %v, %v", zones, err)
	}
	if _, err := raplZones(t.TempDir()); err == nil {
		t.Error("an empty directory has zones")
	}
}

// TestCountersWrapAndReset: a wrap is counted, and what cannot be told from a loss is a gap, after which counting goes on.
func TestCountersWrapAndReset(t *testing.T) {
	root := twoSockets(t)
	set(t, root, "intel-rapl:0/energy_uj", 262143328850-500)
	m, err := Open(Config{Kind: kindRAPL, Root: root}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, m, 0, 0)
	set(t, root, "intel-rapl:0/energy_uj", 700)
	mustAdvance(t, m, 1, 1200)
	set(t, root, "intel-rapl:0/energy_uj", 600) // a wrap would be 262 kJ in a second
	mustGap(t, m, moment(2))
	set(t, root, "intel-rapl:0/energy_uj", 1600)
	mustAdvance(t, m, 3, 1000)
	set(t, root, "intel-rapl:0/energy_uj", 2600)
	mustGap(t, m, moment(3+60)) // its memory, of 65 kJ, may have wrapped unseen
	suspended := moment(64)
	suspended.Wall = suspended.Wall.Add(time.Hour)
	set(t, root, "intel-rapl:0/energy_uj", 2700)
	mustGap(t, m, suspended)

	set(t, root, "intel-rapl:0/energy_uj", 2800)
	again := moment(65)
	again.Wall = again.Wall.Add(time.Hour)
	if got, err := m.Advance(again); err != nil || got != 100 {
		t.Errorf("after it: %d, %v", got, err)
	}
	if err := os.Rename(filepath.Join(root, "intel-rapl:1"), filepath.Join(root, "away")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Advance(again); err == nil || errors.Is(err, ErrGap) {
		t.Errorf("a zone that cannot be read: %v", err)
	}
	if m.Refresh(t.Context()) == nil {
		t.Error("a zone that cannot be read can")
	}
	if err := os.Rename(filepath.Join(root, "away"), filepath.Join(root, "intel-rapl:1")); err != nil {
		t.Fatal(err)
	}
	set(t, root, "intel-rapl:0/energy_uj", 3000)
	again.Mono, again.Wall = again.Mono+time.Second, again.Wall.Add(time.Second)
	if got, err := m.Advance(again); err != nil || got != 200 {
		t.Errorf("nothing is lost by a reading that failed: %d, %v", got, err)
	}
}

// TestHwmon: counters and powers of a chip, found by its name.
func TestHwmon(t *testing.T) {
	root := tree(t, map[string]string{
		"hwmon0/name": "coretemp", "hwmon1/name": "amd_energy", "hwmon1/energy1_input": "100", "hwmon1/energy2_input": "7",
		"hwmon2/name": "power_meter", "hwmon2/power1_average": "210000000", "hwmon3/name": "nic", "hwmon4/name": "nic",
	})
	m, err := Open(Config{Kind: kindHwmon, Root: root, Chip: "amd_energy", Sensors: []string{"energy1_input"}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, m, 0, 0)
	set(t, root, "hwmon1/energy1_input", 350)
	mustAdvance(t, m, 1, 250)
	set(t, root, "hwmon1/energy1_input", 10)
	mustGap(t, m, moment(2))
	p, err := Open(Config{Kind: kindHwmon, Root: root, Chip: "power_meter", Sensors: []string{"power1_average"}, Node: true}, time.Second)
	if err != nil || !p.Source().Node {
		t.Fatal(err)
	}
	mustAdvance(t, p, 0, 0)
	if err := p.Refresh(t.Context()); err != nil || !p.Source().Sampled || m.Source().Sampled {
		t.Fatal(err)
	}
	mustAdvance(t, p, 2, 420_000_000)
	for _, chip := range []string{"nic", "none"} {
		if _, err := Open(Config{Kind: kindHwmon, Root: root, Chip: chip, Sensors: []string{"power1_input"}}, time.Second); err == nil {
			t.Errorf("%s is opened", chip)
		}
	}
}

// TestSamplesTellOfTheTimeBefore: a sample tells of the time since the one before and of none that comes, nothing is told without one, and one
// does not stand for a long time.
func TestSamplesTellOfTheTimeBefore(t *testing.T) {
	mw, fail := int64(1_000), error(nil)
	p := &power{source: Source{Name: "p"}, hold: 5 * time.Second, sample: func(context.Context) (int64, error) { return mw, fail }}
	sample := func(want int64) {
		mw = want
		if err := p.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mustAdvance(t, p, 0, 0)
	sample(1_000)
	mustAdvance(t, p, 1, 1_000_000)
	if e, err := p.Advance(moment(1.5)); err == nil || errors.Is(err, ErrGap) || e != 0 {
		t.Errorf("without a sample: %d, %v", e, err)
	}
	sample(3_000)
	mustAdvance(t, p, 3, 6_000_000)
	var sum int64
	for i := range 1000 {
		sample(7)
		e, err := p.Advance(moment(3 + float64(i+1)/1000))
		if err != nil {
			t.Fatal(err)
		}
		sum += e
	}
	if sum < 6999 || sum > 7000 {
		t.Errorf("%d µJ in a thousand parts", sum)
	}
	sample(7)
	mustGap(t, p, moment(20)) // one sample is not the whole of it
	fail = errors.New("gone")
	if err := p.Refresh(t.Context()); err == nil {
		t.Error("no error")
	}
	mustGap(t, p, moment(40))
	if mw, fail = -1, nil; p.Refresh(t.Context()) == nil {
		t.Error("a negative power is a power")
	}
}

// TestParsers: the documented answers, and answers that must not become a figure.
func TestParsers(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	nvidia := parseNvidia
	red := func(s string) (int64, error) { return parseRedfish([]byte(s)) }
	for _, c := range []struct {
		name  string
		parse func(string) (int64, error)
		text  string
		want  int64 // -1: an error
	}{
		{"nvidia", nvidia, read("nvidia.txt"), 136_410},
		{"nvidia none", nvidia, "", -1},
		{"nvidia without power", nvidia, "GPU-11111111-2222-3333-4444-555555555555, [N/A]\n", -1},
		{"nvidia one without", nvidia, read("nvidia.txt") + "GPU-11111111-2222-3333-4444-555555555550, [Not Supported]", -1},
		{"nvidia twice", nvidia, read("nvidia.txt") + read("nvidia.txt"), -1},
		{"nvidia fails", nvidia, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", -1},
		{"ascend 310P", parseAscend, read("ascend-310p.txt"), 25_900},
		{"ascend 910", parseAscend, read("ascend-910.txt"), 88_900},
		{"ascend NA", parseAscend, "Power Dissipation(W) : NA\n", -1},
		{"ascend none", parseAscend, "NPU ID : 0\n", -1},
		{"dcmi", parseDCMI, read("dcmi.txt"), 220_000},
		{"dcmi off", parseDCMI, strings.Replace(read("dcmi.txt"), "activated", "deactivated", 1), -1},
		{"dcmi none", parseDCMI, "DCMI request failed because: Invalid command (c1)", -1},
		{"dcmi twice", parseDCMI, read("dcmi.txt") + read("dcmi.txt"), -1},
		{"redfish", red, read("redfish.json"), 344_500},
		{"redfish null", red, `{"PowerControl":[{"PowerConsumedWatts":null}]}`, -1},
		{"redfish several", red, `{"PowerControl":[{"PowerConsumedWatts":1},{"PowerConsumedWatts":2}]}`, -1},
		{"redfish negative", red, `{"PowerControl":[{"PowerConsumedWatts":-1}]}`, -1},
		{"redfish text", red, `{"PowerControl":[{"PowerConsumedWatts":"high"}]}`, -1},
	} {
		got, err := c.parse(c.text)
		if c.want < 0 && err == nil || c.want >= 0 && (err != nil || got != c.want) {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
	}
	if busy, all, err := parseStat("cpu  10 1 5 80 4 0 0 0 3 0\ncpu0 1"); busy != 16 || all != 100 || err != nil {
		t.Errorf("%d of %d, %v", busy, all, err)
	}
}

// TestToolsEnd: a program that hangs, fails, floods or answers nonsense is an error in time, and leaves nothing behind.
func TestToolsEnd(t *testing.T) {
	root := t.TempDir()
	t.Setenv("LD_LIBRARY_PATH", "/opt/driver")
	t.Setenv("PATH", root+":"+os.Getenv("PATH"))
	script := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := script("good", "cat <<'X'\nGPU-11111111-2222-3333-4444-555555555555, 65.41\nX")
	for command, ok := range map[string]bool{
		good: true, script("fails", "exit 9"): false, script("floods", "yes"): false, script("silent", ""): false, filepath.Join(root, "none"): false,
	} {
		m, err := Open(Config{Kind: kindNvidia, Command: command}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Refresh(t.Context()); err == nil != ok {
			t.Errorf("%s: %v", filepath.Base(command), err)
		}
	}
	if _, err := runTool(t.Context(), script("complains", "echo 'no driver' >&2; exit 127")); err == nil || !strings.Contains(err.Error(), `("no driver")`) {
		t.Errorf("it does not say why: %v", err)
	}
	if got, err := runTool(t.Context(), script("libraries", `echo "$LD_LIBRARY_PATH"`)); err != nil || got != "/opt/driver\n" {
		t.Errorf("libraries in %q, %v", got, err)
	}
	if _, err := runTool(t.Context(), "good"); err == nil {
		t.Error("a program of the path of this process is run")
	}
	if _, err := runTool(t.Context(), script("floods", "yes")); !errors.Is(err, context.Canceled) {
		t.Errorf("a flood ends by %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := runTool(ctx, script("hangs", "exec sleep 60")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it hangs: %v", err)
	}
}

// TestRedfish: the controller is asked with the password, also one that was replaced, over TLS alone, and not where it points to.
func TestRedfish(t *testing.T) {
	body, err := os.ReadFile("testdata/redfish.json")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := false
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/elsewhere":
			elsewhere = true
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case user != "meter" || password != "right":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write(body)
		}
	}))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeCertificate(t, ca, s.Certificate().Raw)
	open := func(path string, password keyring.Credential, ca string) (Meter, error) {
		return Open(Config{Kind: kindRedfish, URL: s.URL + path, User: "meter", Password: password, CAFile: ca}, time.Second)
	}
	ask := func(path, password, ca string) error {
		m, err := open(path, keyring.Inline(password), ca)
		if err != nil {
			return err
		}
		return m.Refresh(t.Context())
	}
	if err := ask("/power", "right", ca); err != nil {
		t.Error(err)
	}
	password := keyring.Inline("wrong")
	m, err := open("/power", password, ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Refresh(t.Context()); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with the password before: %v", err)
	}
	password.Set("right")
	if err := m.Refresh(t.Context()); err != nil {
		t.Errorf("the password was replaced: %v", err)
	}
	for name, err := range map[string]error{"wrong password": ask("/power", "wrong", ca), "unknown authority": ask("/power", "right", ""), "redirect": ask("/moved", "right", ca), "no password": ask("/power", "", ca)} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if elsewhere {
		t.Error("the redirect was followed")
	}
}

// TestReplayAndModel: a recording is played by the clock and ends with an error; the model follows the processors.
func TestReplayAndModel(t *testing.T) {
	m, err := Open(Config{Kind: kindReplay, Path: "testdata/replay.csv"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, m, 5, 0)
	mustAdvance(t, m, 5.5, 10_000_000)
	mustAdvance(t, m, 7, 70_000_000)
	if _, err := m.Advance(moment(8)); err == nil {
		t.Error("it goes on after its end")
	}
	root := tree(t, map[string]string{"stat": "cpu 900 0 0 100 0"}) // since the start: it is none of the first sample
	u, err := Open(Config{Kind: kindModelled, Root: root, IdleMilliwatts: 10_000, BusyMilliwatts: 50_000}, time.Second)
	if err != nil || u.Source().Method != Modelled {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "stat"), []byte("cpu 925 0 0 170 5"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := u.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, u, 0, 0)
	if err := os.WriteFile(filepath.Join(root, "stat"), []byte("cpu 950 0 0 240 10"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := u.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAdvance(t, u, 1, 20_000_000)
}

// TestConfig: energy cannot be configured to count twice.
func TestConfig(t *testing.T) {
	rapl, nvidia := Config{Kind: kindRAPL}, Config{Kind: kindNvidia}
	for name, c := range map[string]struct {
		list []Config
		ok   bool
	}{
		"none": {nil, true}, "processors and boards": {[]Config{rapl, nvidia}, true}, "twice": {[]Config{rapl, rapl}, false},
		"the machine and a part": {[]Config{{Kind: kindIPMI}, nvidia}, false}, "the machine": {[]Config{{Kind: kindIPMI}}, true},
		"a part and a declared rest": {[]Config{rapl, {Kind: kindDeclared, IdleMilliwatts: 9}}, true},
		"modelled and measured":      {[]Config{rapl, {Kind: kindModelled, BusyMilliwatts: 9}}, false},
		"no kind":                    {[]Config{{}}, false}, "plain http": {[]Config{{Kind: kindRedfish, URL: "http://x/redfish"}}, false},
		"a password in an address":      {[]Config{{Kind: kindRedfish, URL: "https://u:p@x/redfish"}}, false},
		"a sensor with a path":          {[]Config{{Kind: kindHwmon, Chip: "x", Sensors: []string{"../../etc/shadow"}}}, false},
		"two units":                     {[]Config{{Kind: kindHwmon, Chip: "x", Sensors: []string{"energy1_input", "power1_input"}}}, false},
		"a sensor by input and average": {[]Config{{Kind: kindHwmon, Chip: "x", Sensors: []string{"power1_input", "power1_average"}}}, false},
		"a chip twice":                  {[]Config{{Kind: kindHwmon, Chip: "x", Sensors: []string{"energy1_input"}}, {Kind: kindHwmon, Chip: "x", Sensors: []string{"energy2_input"}}}, false},
		"sockets twice":                 {[]Config{{Kind: kindHwmon, Chip: "amd_energy", Sensors: []string{"energy1_input"}}, rapl}, false},
		"the machine by its chip":       {[]Config{{Kind: kindHwmon, Chip: "power_meter", Sensors: []string{"power1_average"}}, rapl}, false},
		"two chips":                     {[]Config{{Kind: kindHwmon, Chip: "x", Sensors: []string{"energy1_input"}}, {Kind: kindHwmon, Chip: "y", Sensors: []string{"energy1_input"}}}, true},
		"a card twice":                  {[]Config{{Kind: kindAscend, Cards: []int{1, 1}}}, false},
	} {
		if err := ValidateAll(c.list); err == nil != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if Weakest(Measured, Declared, Modelled) != Declared || Weakest(Measured, "") != "" || Weakest(Measured, Measured) != Measured {
		t.Error("a sum is called better than its parts")
	}
}

func FuzzParsers(f *testing.F) {
	for _, name := range []string{"nvidia.txt", "ascend-310p.txt", "ascend-910.txt", "dcmi.txt", "redfish.json", "replay.csv"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("cpu  10 1 5 80 4 0 0 0 3 0")
	f.Fuzz(func(t *testing.T, text string) {
		for name, parse := range map[string]func() (int64, error){
			"nvidia":  func() (int64, error) { return parseNvidia(text) },
			"ascend":  func() (int64, error) { return parseAscend(text) },
			"dcmi":    func() (int64, error) { return parseDCMI(text) },
			"redfish": func() (int64, error) { return parseRedfish([]byte(text)) },
		} {
			if n, err := parse(); n < 0 || err != nil && n != 0 {
				t.Errorf("%s: %d with %v", name, n, err)
			}
		}
		if rows, err := parseReplay(strings.NewReader(text)); err == nil && (len(rows) < 2 || rows[0] != row{}) {
			t.Errorf("%v", rows)
		}
		if busy, all, err := parseStat(text); err == nil && busy > all {
			t.Errorf("busy %d of %d", busy, all)
		}
	})
}

// TestFoundAndMeasured: what a machine has is found without being told, and what cannot be read says why instead of 0.
func TestFoundAndMeasured(t *testing.T) {
	files := map[string]string{
		"sys/class/hwmon/hwmon0/name": "amd_energy", "sys/class/hwmon/hwmon0/energy1_input": "5", "sys/class/hwmon/hwmon0/energy1_label": "Ecore000",
		"sys/class/hwmon/hwmon0/energy2_input": "5", "sys/class/hwmon/hwmon0/energy2_label": "Esocket0", "sys/class/hwmon/hwmon1/name": "coretemp",
	}
	zoneFiles(files, "sys/class/powercap/intel-rapl:0", "package-0", "5", "262143328850")
	t.Setenv("PATH", t.TempDir())
	root := tree(t, files)
	found := Found(root)
	if len(found) != 2 || found[0].Kind != kindRAPL || found[1].Chip != "amd_energy" || len(found[1].Sensors) != 1 || found[1].Sensors[0] != "energy2_input" {
		t.Errorf("%+v", found)
	}
	if got := Found(t.TempDir()); len(got) != 0 {
		t.Errorf("an empty machine has %+v", got)
	}
	if p := Measure(t.Context(), Config{Kind: kindDeclared, IdleMilliwatts: 7000}, time.Millisecond); p.Milliwatts == nil || *p.Milliwatts < 6900 || *p.Milliwatts > 7000 {
		t.Errorf("%+v", p)
	}
	if p := Measure(t.Context(), Config{Kind: kindRAPL, Root: t.TempDir()}, time.Millisecond); p.Milliwatts != nil || p.Error == "" || p.Kind != kindRAPL {
		t.Errorf("%+v", p)
	}
	m := Retry(Config{Kind: kindRAPL, Root: filepath.Join(root, "later")}, time.Second)
	mustGap(t, m, moment(0))
	if err := os.Rename(filepath.Join(root, "sys/class/powercap"), filepath.Join(root, "later")); err != nil {
		t.Fatal(err)
	}
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustGap(t, m, moment(1)) // it was opened in the middle
	mustAdvance(t, m, 2, 0)
}
