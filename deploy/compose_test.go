package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/server/config"
)

// project is the part of the Compose format that we use. Decoding is strict: a misspelt key is an error.
type project struct {
	Name     string
	Hardened service `yaml:"x-hardened"`
	Services map[string]service
	Networks map[string]struct{ Internal bool }
	Volumes  map[string]struct{}
}

type service struct {
	Image      string
	PullPolicy string `yaml:"pull_policy"`
	Build      *struct {
		Context, Dockerfile string
		Args                map[string]string
	}
	Command     []string
	Entrypoint  []string
	User        string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Tmpfs       []string
	Networks    []string
	Restart     string
	ReadOnly    bool          `yaml:"read_only"`
	CapDrop     []string      `yaml:"cap_drop"`
	SecurityOpt []string      `yaml:"security_opt"`
	ShmSize     string        `yaml:"shm_size"`
	StopGrace   time.Duration `yaml:"stop_grace_period"`
	Healthcheck *struct {
		Test        []string
		Interval    time.Duration
		Timeout     time.Duration
		Retries     int
		StartPeriod time.Duration `yaml:"start_period"`
	}
	DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
}

func compose(t *testing.T) project {
	t.Helper()
	var p project
	d := yaml.NewDecoder(bytes.NewReader([]byte(read(t, "compose.yaml"))))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

// once reports whether a service ends by itself.
func (s service) once() bool { return s.Restart == "no" || strings.HasPrefix(s.Restart, "on-failure:") }

func TestComposeHasThePartsAndPinsThem(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for _, want := range []string{"sluice", "postgres", "redis", "temporal"} {
		if _, ok := p.Services[want]; !ok {
			t.Errorf("there is no service %s", want)
		}
	}
	for name, s := range p.Services {
		if !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %q is not pinned", name, s.Image)
		}
		if !s.once() && s.Restart != "unless-stopped" {
			t.Errorf("%s: restart %q", name, s.Restart)
		}
		if h := s.Healthcheck; !s.once() && (h == nil || len(h.Test) < 2 || h.Test[0] != "CMD" || h.Interval == 0 || h.Timeout == 0 || h.Retries == 0) {
			t.Errorf("%s has no complete health check in exec form", name)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may gain privileges", name)
		}
	}
	server, tools := p.Services["temporal"].Image, p.Services["temporal-schema"].Image
	if strings.TrimPrefix(server, "temporalio/server") != strings.TrimPrefix(tools, "temporalio/admin-tools") {
		t.Errorf("the schema tool %s is not of the server's version %s", tools, server)
	}
}

func TestComposeDependenciesCanBeMet(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for name, s := range p.Services {
		for other, dep := range s.DependsOn {
			target, ok := p.Services[other]
			switch {
			case !ok:
				t.Errorf("%s waits for the unknown service %s", name, other)
			case dep.Condition == "service_healthy" && target.Healthcheck == nil:
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			case dep.Condition == "service_completed_successfully" && !target.once():
				t.Errorf("%s waits for the end of %s, which restarts for ever", name, other)
			case dep.Condition != "service_healthy" && dep.Condition != "service_completed_successfully":
				t.Errorf("%s waits for %s only until it is started", name, other)
			}
			if !slices.ContainsFunc(s.Networks, func(n string) bool { return slices.Contains(target.Networks, n) }) && !target.once() {
				t.Errorf("%s cannot reach %s", name, other)
			}
		}
		for _, n := range s.Networks {
			if _, ok := p.Networks[n]; !ok {
				t.Errorf("%s is on the unknown network %s", name, n)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				if _, err := os.Stat(filepath.Clean(source)); err != nil || !strings.HasSuffix(v, ":ro") {
					t.Errorf("%s mounts %s: %v; it must exist and be read-only", name, v, err)
				}
			} else if _, ok := p.Volumes[source]; !ok {
				t.Errorf("%s mounts the unknown volume %s", name, source)
			}
		}
		if b := s.Build; b != nil {
			if _, err := os.Stat(filepath.Join(b.Context, b.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestComposeKeepsEverythingButSluiceInside(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for name, s := range p.Services {
		ours := strings.HasPrefix(s.Image, "sluice:")
		if ours && s.PullPolicy != "never" {
			t.Errorf("%s would ask a registry for an image that is built here", name)
		}
		if name != "sluice" && len(s.Ports) > 0 {
			t.Errorf("%s is published: %v", name, s.Ports)
		}
		for _, n := range s.Networks {
			if !ours && !p.Networks[n].Internal {
				t.Errorf("%s is on the open network %s", name, n)
			}
		}
		if ours && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || s.User != "65532:65532") {
			t.Errorf("%s is not confined: %+v", name, s)
		}
	}
	s := p.Services["sluice"]
	if len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "${SLUICE_BIND:-127.0.0.1}:") {
		t.Errorf("published as %v, want the loopback address unless told otherwise", s.Ports)
	}
	if s.StopGrace <= config.Default().DrainTimeout {
		t.Errorf("it is killed after %s, before the drain of %s is over", s.StopGrace, config.Default().DrainTimeout)
	}
}

var variable = regexp.MustCompile(`\$\{(\w+)(:[-?])?([^}]*)\}`)

func TestComposeHasNoDefaultPasswords(t *testing.T) {
	t.Parallel()
	secret := regexp.MustCompile(`PASSWORD|PWD|AUTH$|SECRET|TOKEN`)
	text := read(t, "compose.yaml")
	example := read(t, ".env.example")
	for name, s := range compose(t).Services {
		for k, v := range s.Environment {
			if secret.MatchString(k) && !regexp.MustCompile(`^\$\{\w+:\?[^}]+\}$`).MatchString(v) {
				t.Errorf("%s: %s is not a required variable", name, k)
			}
			if regexp.MustCompile(`://[^/]*:[^$/][^/]*@`).MatchString(variable.ReplaceAllString(v, "$$")) {
				t.Errorf("%s: %s carries a password", name, k)
			}
		}
	}
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		required := m[2] == ":?"
		if !required && m[2] != ":-" {
			t.Errorf("%s may be empty without a word", m[0])
		}
		line := regexp.MustCompile(`(?m)^(# )?` + m[1] + `=(.*)$`).FindStringSubmatch(example)
		switch {
		case line == nil:
			t.Errorf("%s is not explained in .env.example", m[1])
		case required && (line[1] != "" || line[2] != ""):
			t.Errorf("%s must stand in .env.example, empty", m[1])
		}
	}
}

// TestComposeEnvironmentLoads gives Sluice the variables as Compose would and lets it read them.
func TestComposeEnvironmentLoads(t *testing.T) {
	t.Parallel()
	p := compose(t)
	known := knownVariables()
	for name, s := range p.Services {
		env := map[string]string{}
		for k, v := range s.Environment {
			env[k] = variable.ReplaceAllStringFunc(v, func(m string) string {
				if parts := variable.FindStringSubmatch(m); parts[2] == ":-" {
					return parts[3]
				}
				return "s3cret"
			})
			if strings.HasPrefix(s.Image, "sluice:") && !known[k] {
				t.Errorf("%s: %s is no key of the configuration", name, k)
			}
		}
		if !strings.HasPrefix(s.Image, "sluice:") {
			continue
		}
		checkCommand(t, name, s.Command)
		cfg, err := config.Load("", environ(env), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "sluice" && (!cfg.Workflows.Enabled || cfg.Workflows.Address != "temporal:7233" || cfg.Workflows.Namespace != "sluice" ||
			!strings.HasPrefix(cfg.Database.URL.Reveal(), "postgres://sluice:s3cret@postgres") || cfg.Limits.RedisURL.Reveal() != "redis://:s3cret@redis:6379/0") {
			t.Errorf("the values did not arrive: %+v", cfg.Workflows)
		}
	}
	checkCommand(t, "health check", p.Services["sluice"].Healthcheck.Test[2:])
}

func TestComposePullsWhatTheCatalogueHas(t *testing.T) {
	t.Parallel()
	for _, name := range compose(t).Services["models"].Command[1:] {
		if !slices.ContainsFunc(modelstore.Catalogue(), func(e modelstore.Entry) bool { return e.Name == name }) {
			t.Errorf("the catalogue has no %s", name)
		}
	}
}

// TestTemporalNamespaceIsTheOneThatIsMade holds the script and the configuration together.
func TestTemporalNamespaceIsTheOneThatIsMade(t *testing.T) {
	t.Parallel()
	want := compose(t).Services["sluice"].Environment["SLUICE_WORKFLOWS_NAMESPACE"]
	if got := strings.Count(read(t, "compose/temporal-namespace.sh"), "--namespace "+want+" "); got != 2 {
		t.Errorf("the script names the namespace %q %d times", want, got)
	}
	var dynamic map[string][]struct {
		Value       any
		Constraints map[string]string
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose/temporal-dynamicconfig.yaml")), &dynamic); err != nil || len(dynamic) == 0 {
		t.Errorf("dynamic configuration: %v", err)
	}
}
