package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/sluice-project/sluice/internal/keyring"
)

const envPrefix = "SLUICE_"

// otherEnv are variables with our prefix that are not configuration keys: they steer the CLI's client side, the kernels and tests.
//
//nolint:gochecknoglobals // a constant table
var otherEnv = []string{
	"SLUICE_CONFIG", "SLUICE_URL", "SLUICE_API_KEY", "SLUICE_ADMIN_USER", "SLUICE_ADMIN_PASSWORD", "SLUICE_SESSION", "SLUICE_BREAK_GLASS_1", "SLUICE_BREAK_GLASS_2", "SLUICE_ISA", "SLUICE_REQUIRE",
	"SLUICE_LANG",
}

// Load reads the configuration: defaults, then the YAML file at path (none if path is empty), then SLUICE_* environment
// variables, then overrides (dotted key → value, from command-line flags). Unknown keys anywhere are errors that suggest the
// nearest known key. The result is validated; all problems are reported together, each with its key, and with its line and column
// if the file says it.
func Load(path string, environ []string, overrides map[string]any) (*Config, error) {
	known := Keys()
	k := koanf.New(".")
	at, err := loadFile(k, path, known)
	if err != nil {
		return nil, err
	}
	env, err := fromEnv(environ, known)
	if err != nil {
		return nil, err
	}
	referToEnv(env)
	for _, layer := range []map[string]any{env, overrides} {
		if err := k.Load(confmap.Provider(layer, "."), nil); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		for key := range layer {
			at.hide(key)
		}
	}
	cfg := Default()
	err = k.UnmarshalWithConf("", &cfg, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		WeaklyTypedInput: true,
		ErrorUnused:      true,
		ZeroFields:       true, // a list in the file replaces the default list
		Squash:           true,
		TagName:          "koanf",
		MatchName:        func(key, field string) bool { return key == field || key == snake(field) },
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			wholeDuration,
			credential,
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToTimeHookFunc(time.RFC3339),
			mapstructure.StringToSliceHookFunc(","),
		),
	}})
	if err != nil {
		return nil, fmt.Errorf("configuration: %s", at.decoding(err))
	}
	if err := cfg.readCredentials(environ); err != nil {
		return nil, err
	}
	cfg.resolve()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration is not valid:\n%w", at.validation(err))
	}
	return &cfg, nil
}

// wholeDuration refuses a number without a unit, which the decoder would take for nanoseconds.
func wholeDuration(from, to reflect.Type, value any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() || from == to || from.Kind() == reflect.String || reflect.ValueOf(value).IsZero() {
		return value, nil
	}
	return nil, fmt.Errorf("%v has no unit; write %vs for seconds", value, value)
}

// serviceLink matches the variables that Kubernetes sets in every pod beside a service called sluice or sluice-something.
var serviceLink = regexp.MustCompile(`^SLUICE_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST=|SERVICE_PORT(?:_[A-Z0-9_]+)?=\d+$|PORT(?:_\d+_(?:TCP|UDP|SCTP))?=[a-z]+://|PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO|PORT|ADDR)=)`)

func fromEnv(environ, known []string) (map[string]any, error) {
	byName := map[string]string{}
	for _, key := range known {
		byName[EnvName(key)] = key
	}
	out := map[string]any{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(otherEnv, name) || strings.HasPrefix(name, envPrefix+"TEST_") {
			continue
		}
		key, ok := byName[name]
		if !ok && serviceLink.MatchString(kv) {
			continue
		}
		if !ok {
			names := make([]string, 0, len(byName))
			for n := range byName {
				names = append(names, n)
			}
			return nil, fmt.Errorf("unknown environment variable %s; did you mean %s? `sluice config print` lists the keys", name, nearest(name, names))
		}
		out[key] = value
	}
	return out, nil
}

// EnvName returns the environment variable that sets a dotted key.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func checkKnown(key string, known []string) error {
	for _, k := range known {
		// Below a list or map the decoder checks the names itself.
		if key == k || strings.HasPrefix(key, k+".") || strings.HasPrefix(k, key+".") {
			return nil
		}
	}
	return fmt.Errorf("unknown key %q; did you mean %q? `sluice config example` shows all keys", key, nearest(key, known))
}

// Keys returns every dotted key of the tree, sorted. Lists and maps are one key.
func Keys() []string {
	var out []string
	walk(reflect.ValueOf(Default()), "", func(key string, _ reflect.Value) { out = append(out, key) })
	slices.Sort(out)
	return out
}

// Print returns the effective tree with secrets hidden, as nested maps ready for YAML.
func (c Config) Print() map[string]any {
	out := map[string]any{}
	walk(reflect.ValueOf(c), "", func(key string, v reflect.Value) {
		parts := strings.Split(key, ".")
		m := out
		for _, p := range parts[:len(parts)-1] {
			next, ok := m[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				m[p] = next
			}
			m = next
		}
		m[parts[len(parts)-1]] = printable(v)
	})
	return out
}

func printable(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case keyring.Credential:
		return x.String()
	case time.Duration:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = printable(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, key := range v.MapKeys() {
			out[key.String()] = printable(v.MapIndex(key))
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		walk(v, "", func(key string, f reflect.Value) { out[key] = printable(f) })
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return printable(v.Elem())
	default:
		return v.Interface()
	}
}

// walk calls visit for every leaf of a configuration struct with its dotted snake-case key. Embedded structs are flattened;
// fields that hold code (functions, interfaces) are not configuration.
func walk(v reflect.Value, prefix string, visit func(string, reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || keyOf(f) == "-" { // "-": another key fills it
			continue
		}
		switch f.Type.Kind() { //nolint:exhaustive // the rest are leaves
		case reflect.Func, reflect.Interface, reflect.Chan:
			continue
		case reflect.Struct:
			if f.Type == reflect.TypeFor[keyring.Credential]() {
				break
			}
			p := prefix + keyOf(f) + "."
			if f.Anonymous {
				p = prefix
			}
			walk(v.Field(i), p, visit)
			continue
		}
		visit(prefix+keyOf(f), v.Field(i))
	}
}

// keyOf returns the key of a field: its tag, else its name in snake case.
func keyOf(f reflect.StructField) string {
	if tag := f.Tag.Get("koanf"); tag != "" {
		return tag
	}
	return snake(f.Name)
}

// snake turns a Go field name into a key: "BaseURL" → "base_url", "TLS" → "tls", "TTLSeconds" → "ttl_seconds".
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(rs[i-1]) || (i+1 < len(rs) && unicode.IsLower(rs[i+1]) && unicode.IsUpper(rs[i-1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// nearest returns the candidate with the smallest edit distance to s.
func nearest(s string, candidates []string) string {
	best, bestDistance := "", 1<<30
	slices.Sort(candidates)
	for _, c := range candidates {
		if d := distance(s, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
