package meter

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
)

// The kinds of meters.
const (
	kindRAPL     = "rapl"
	kindHwmon    = "hwmon"
	kindNvidia   = "nvidia"
	kindAscend   = "ascend"
	kindIPMI     = "ipmi"
	kindRedfish  = "redfish"
	kindModelled = "modelled"
	kindDeclared = "declared"
	kindReplay   = "replay"
)

// Config names one meter. Which fields count depends on the kind.
type Config struct {
	Kind string `koanf:"kind"`
	// Root is the directory of rapl (/sys/class/powercap), hwmon (/sys/class/hwmon) or modelled (/proc), where it is not the usual one.
	Root string `koanf:"root"`
	// Chip is the name of the hwmon chip, or its directory; Sensors are its files, of one unit: energy1_input …, or power1_average ….
	Chip    string   `koanf:"chip"`
	Sensors []string `koanf:"sensors"`
	// Cards are the numbers of the Ascend cards.
	Cards []int `koanf:"cards"`
	// Command is the path of nvidia-smi, npu-smi or ipmitool; empty: it is looked for.
	Command string `koanf:"command"`
	// URL of the Power resource of the chassis (https), User and Password, and the file of the authority of its certificate.
	URL      string             `koanf:"url"`
	User     string             `koanf:"user"`
	Password keyring.Credential `koanf:"password"`
	CAFile   string             `koanf:"ca_file"`
	// Path of the recording to replay.
	Path string `koanf:"path"`
	// IdleMilliwatts and BusyMilliwatts are the powers of modelled without and with all processors at work; declared draws IdleMilliwatts always.
	IdleMilliwatts int64 `koanf:"idle_milliwatts"`
	BusyMilliwatts int64 `koanf:"busy_milliwatts"`
	// Node: hwmon, declared and replay speak of the whole machine, not of a part.
	Node bool `koanf:"node"`
	// UncertaintyPermille is by how many thousandths figures may be off; 0: the usual of the kind.
	UncertaintyPermille int `koanf:"uncertainty_permille"`
}

// Validate reports what is wrong with the configuration of one meter.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(c.Kind+": "+what))
		}
	}
	switch c.Kind {
	case kindRAPL, kindNvidia, kindIPMI:
	case kindHwmon:
		need(c.Chip != "" && !strings.ContainsAny(c.Chip, "/\\") && c.Chip != "..", "chip: must be the name of a chip")
		need(len(c.Sensors) > 0, "sensors: must not be empty")
		for _, s := range c.Sensors {
			need(hwmonSensor.MatchString(s), "sensors: must be energyN_input, powerN_input or powerN_average")
			need(strings.HasPrefix(s, "energy") == strings.HasPrefix(c.Sensors[0], "energy"), "sensors: must be all energies or all powers")
		}
		names := map[string]bool{}
		for _, s := range c.Sensors { // the input and the average are of one sensor
			name, _, _ := strings.Cut(s, "_")
			names[name] = true
		}
		need(len(names) == len(c.Sensors), "sensors: must not name one twice")
	case kindAscend:
		need(len(c.Cards) > 0 && len(c.Cards) <= 64, "cards: must name 1 to 64 cards")
		need(len(slices.Compact(slices.Sorted(slices.Values(c.Cards)))) == len(c.Cards), "cards: must not name one twice")
		for _, n := range c.Cards {
			need(n >= 0 && n < 1024, "cards: must lie between 0 and 1023")
		}
	case kindRedfish:
		u, err := url.Parse(c.URL)
		need(err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil, "url: must be an https address without a password")
		need((c.User == "") == c.Password.Empty(), "user and password: set both or neither")
	case kindModelled, kindDeclared:
		need(c.IdleMilliwatts >= 0 && c.IdleMilliwatts <= MaxMilliwatts, "idle_milliwatts: must lie between 0 and 1000000000")
		need(c.Kind == kindDeclared || c.BusyMilliwatts >= c.IdleMilliwatts && c.BusyMilliwatts <= MaxMilliwatts, "busy_milliwatts: must lie between idle_milliwatts and 1000000000")
	case kindReplay:
		need(c.Path != "", "path: must name a recording")
	default:
		return errors.New("kind: must be rapl, hwmon, nvidia, ascend, ipmi, redfish, modelled, declared or replay")
	}
	need(c.UncertaintyPermille >= 0 && c.UncertaintyPermille <= 1000, "uncertainty_permille: must lie between 0 and 1000")
	return errors.Join(errs...)
}

// whole reports whether the meter is of the whole machine.
func (c Config) whole() bool {
	if c.Kind == kindHwmon && c.Chip == wholeChip {
		return true
	}
	return c.Kind == kindIPMI || c.Kind == kindRedfish || c.Kind == kindModelled || c.Node && (c.Kind == kindHwmon || c.Kind == kindDeclared || c.Kind == kindReplay)
}

// The chips of which something is known: the meter of ACPI measures the whole machine, and amd_energy the sockets that rapl measures, too.
const (
	wholeChip  = "power_meter"
	socketChip = "amd_energy"
)

// ValidateAll reports what is wrong with a list of meters. What they tell is added up, so one of the whole machine stands alone, and one that is known
// to be in another does not stand beside it. That two chips, or two sensors of one, overlap can be known by nobody but who names them.
func ValidateAll(list []Config) error {
	var errs []error
	once := []string{kindRAPL, kindNvidia, kindAscend, kindModelled}
	for i, c := range list {
		if err := c.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("meters[%d]: %w", i, err))
		}
		if c.whole() && len(list) > 1 {
			errs = append(errs, fmt.Errorf("meters[%d]: %s measures the whole machine; with others beside it energy would count twice", i, c.Kind))
		}
		if slices.Contains(once, c.Kind) && slices.ContainsFunc(list[:i], func(o Config) bool { return o.Kind == c.Kind }) {
			errs = append(errs, fmt.Errorf("meters[%d]: a second %s would count the same energy twice", i, c.Kind))
		}
		if c.Kind == kindHwmon && slices.ContainsFunc(list[:i], func(o Config) bool { return o.Kind == kindHwmon && o.Chip == c.Chip }) {
			errs = append(errs, fmt.Errorf("meters[%d]: %s is there before; name all of its sensors at once", i, c.Chip))
		}
		if c.Kind == kindHwmon && c.Chip == socketChip && slices.ContainsFunc(list, func(o Config) bool { return o.Kind == kindRAPL }) {
			errs = append(errs, fmt.Errorf("meters[%d]: rapl measures the sockets of %s, too", i, c.Chip))
		}
	}
	return errors.Join(errs...)
}

// uncertainty is the usual one of a kind, in thousandths. RAPL: within a few per cent of an outside meter since Haswell. nvidia-smi: 5 % by
// NVIDIA, and more where the load changes faster than the quarter of the time that is sampled. Controllers: 1 to 5 % plus their slow update.
func (c Config) uncertainty() int {
	if c.UncertaintyPermille > 0 {
		return c.UncertaintyPermille
	}
	return map[string]int{
		kindRAPL: 50, kindHwmon: 50, kindNvidia: 100, kindAscend: 100, kindIPMI: 50, kindRedfish: 50, kindModelled: 300, kindDeclared: 1000, kindReplay: 50,
	}[c.Kind]
}

// source describes the meter before it is open.
func (c Config) source() Source {
	s := Source{Kind: c.Kind, Name: c.Kind, Method: Measured, UncertaintyPermille: c.uncertainty(), Node: c.whole()}
	switch c.Kind {
	case kindNvidia, kindAscend, kindIPMI, kindRedfish, kindModelled:
		s.Sampled = true
	case kindHwmon:
		s.Sampled = len(c.Sensors) > 0 && strings.HasPrefix(c.Sensors[0], "power")
	}
	switch c.Kind {
	case kindModelled:
		s.Method = Modelled
	case kindDeclared, kindReplay: // a recording is of another time
		s.Method = Declared
	}
	return s
}

// Open opens the meter for readings about once a period. It reads what is there, and reports a meter that cannot be read. Parts that need a
// program only run it in Refresh.
func Open(c Config, period time.Duration) (Meter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	source := c.source()
	sampled := func(name string, sample func(context.Context) (int64, error)) (Meter, error) {
		source.Name = name
		return &power{source: source, sample: sample, hold: 3*period + toolTime}, nil
	}
	switch c.Kind {
	case kindRAPL:
		m, err := newRAPL(cmp.Or(c.Root, powercapRoot))
		if err != nil {
			return nil, fmt.Errorf("rapl: %w", err)
		}
		source.Name = m.source.Name
		m.source = source
		_, err = m.read()
		return m, err
	case kindHwmon:
		dir, err := hwmonChip(cmp.Or(c.Root, hwmonRoot), c.Chip)
		if err != nil {
			return nil, fmt.Errorf("hwmon: %w", err)
		}
		name := c.Chip + " " + strings.Join(c.Sensors, " ")
		if strings.HasPrefix(c.Sensors[0], "power") {
			return sampled(name, func(context.Context) (int64, error) { return hwmonPower(dir, c.Sensors) })
		}
		m := hwmonEnergy(dir, c.Sensors)
		if c.whole() {
			m.most = MaxMilliwatts
		}
		source.Name = name
		m.source = source
		_, err = m.read()
		return m, err
	case kindNvidia:
		return sampled("nvidia-smi", func(ctx context.Context) (int64, error) {
			text, err := runTool(ctx, cmp.Or(c.Command, "nvidia-smi"), nvidiaArgs()...)
			if err != nil {
				return 0, err
			}
			return parseNvidia(text)
		})
	case kindAscend:
		return sampled("npu-smi", func(ctx context.Context) (int64, error) { return ascend(ctx, cmp.Or(c.Command, "npu-smi"), c.Cards) })
	case kindIPMI:
		return sampled("ipmitool dcmi", func(ctx context.Context) (int64, error) {
			text, err := runTool(ctx, cmp.Or(c.Command, "ipmitool"), "dcmi", "power", "reading")
			if err != nil {
				return 0, err
			}
			return parseDCMI(text)
		})
	case kindRedfish:
		sample, err := redfish(c)
		if err != nil {
			return nil, fmt.Errorf("redfish: %w", err)
		}
		return sampled(c.URL, sample)
	case kindModelled:
		sample, err := modelled(c)
		if err != nil {
			return nil, fmt.Errorf("modelled: %w", err)
		}
		return sampled("utilisation of the processors", sample)
	case kindDeclared:
		source.Name = "declared"
		return &constant{source: source, milliwatts: c.IdleMilliwatts}, nil
	default:
		m, err := openReplay(c.Path)
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		source.Name = c.Path
		m.source = source
		return m, nil
	}
}

// ascend asks for the power of each card. One that does not answer makes the sum unknown.
func ascend(ctx context.Context, command string, cards []int) (int64, error) {
	var sum int64
	for _, card := range cards {
		text, err := runTool(ctx, command, ascendArgs(card)...)
		if err != nil {
			return 0, err
		}
		mw, err := parseAscend(text)
		if err != nil {
			return 0, err
		}
		sum += mw
	}
	return sum, nil
}

// modelled tells the power by the utilisation of the processors since the sample before, or since now.
func modelled(c Config) (func(context.Context) (int64, error), error) {
	var mu sync.Mutex
	busy, all, err := processorTimes(cmp.Or(c.Root, procRoot))
	if err != nil {
		return nil, err
	}
	return func(context.Context) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		b, a, err := processorTimes(cmp.Or(c.Root, procRoot))
		if err != nil {
			return 0, err
		}
		db, da := b-min(b, busy), a-min(a, all)
		busy, all = b, a
		if da == 0 {
			return 0, errors.New("stat: no time has passed")
		}
		return c.IdleMilliwatts + int64(float64(c.BusyMilliwatts-c.IdleMilliwatts)*float64(min(db, da))/float64(da)), nil
	}, nil
}

// redfish asks a management controller by HTTPS, each time with the password as it is then. Redirects are not followed, since they would carry
// it elsewhere.
func redfish(c Config) (func(context.Context) (int64, error), error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if c.CAFile != "" {
		pem, err := os.ReadFile(filepath.Clean(c.CAFile))
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", c.CAFile)
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	client := &http.Client{Transport: transport, Timeout: toolTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context) (int64, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Accept", "application/json")
		if c.User != "" {
			req.SetBasicAuth(c.User, c.Password.Reveal())
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("redfish: it answers %d", resp.StatusCode)
		}
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput+1))
		switch {
		case err != nil:
			return 0, err
		case len(body) > maxOutput:
			return 0, errors.New("redfish: it says too much")
		}
		return parseRedfish(body)
	}, nil
}
