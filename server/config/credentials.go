package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/keyring"
)

// credential decodes a secret: its text, or a reference to where it is kept. A number is a text, too.
func credential(from, to reflect.Type, value any) (any, error) {
	if to != reflect.TypeFor[keyring.Credential]() || from == to {
		return value, nil
	}
	switch from.Kind() {
	case reflect.String, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
	default:
		return nil, errors.New("must be a text, or a reference such as file:/run/secrets/key or env:NAME")
	}
	var c keyring.Credential
	err := c.UnmarshalText([]byte(fmt.Sprint(value)))
	return c, err
}

// referToEnv makes secrets that the environment holds references to it: there they are kept, not in the configuration.
func referToEnv(env map[string]any) {
	walk(reflect.ValueOf(Default()), "", func(key string, v reflect.Value) {
		if text, ok := env[key].(string); ok && text != "" && v.Type() == reflect.TypeFor[keyring.Credential]() && !keyring.IsReference(text) {
			env[key] = "env:" + EnvName(key)
		}
	})
}

// readCredentials reads what references lead to. All that cannot be read is reported together.
func (c *Config) readCredentials(environ []string) error {
	look := func(name string) (string, bool) {
		for _, kv := range slices.Backward(environ) {
			if text, ok := strings.CutPrefix(kv, name+"="); ok {
				return text, true
			}
		}
		return "", false
	}
	var errs []error
	for _, at := range c.credentials() {
		text, err := at.Read(look)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", at.path, err))
			continue
		}
		at.Set(text)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configuration: secrets cannot be read:\n%w", err)
	}
	return nil
}

// RefreshCredentials reads the files that secrets are kept in again, and returns the keys of those that have changed. What cannot be read, or
// makes the configuration invalid, stays what it was, and is told in the error.
func (c *Config) RefreshCredentials() (changed []string, err error) {
	var errs []error
	for _, at := range c.credentials() {
		text, err := at.Read(os.LookupEnv)
		if err == nil && text != at.Reveal() && strings.HasPrefix(at.Reference(), "file:") {
			before := at.Set(text)
			if err = c.Validate(); err == nil {
				changed = append(changed, at.path)
			} else {
				at.Set(before)
			}
		}
		if err != nil && strings.HasPrefix(at.Reference(), "file:") {
			errs = append(errs, fmt.Errorf("%s: %w", at.path, err))
		}
	}
	return changed, errors.Join(errs...)
}

// InlineCredentials lists the keys of secrets that are written out in the configuration, where whoever reads, copies or backs it up gets them.
func (c *Config) InlineCredentials() []string {
	var out []string
	for _, at := range c.credentials() {
		if at.Reference() == "" && revealing(at.Reveal()) {
			out = append(out, at.path)
		}
	}
	return out
}

// revealing reports whether a text is one to hide: all are, but addresses of databases without a password.
func revealing(text string) bool {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"sqlite", "postgres", "postgresql", "redis", "rediss"}, u.Scheme) {
		return text != ""
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

// located is a secret and its key, such as engines.remote[0].api_key.
type located struct {
	keyring.Credential

	path string
}

// credentials lists the secrets of the tree that there are.
func (c *Config) credentials() []located {
	var out []located
	var look func(v reflect.Value, path string)
	look = func(v reflect.Value, path string) {
		if secret, ok := v.Interface().(keyring.Credential); ok {
			if secret != (keyring.Credential{}) {
				out = append(out, located{secret, path})
			}
			return
		}
		switch v.Kind() { //nolint:exhaustive // no other kind holds secrets
		case reflect.Struct:
			walk(v, "", func(key string, f reflect.Value) { look(f, strings.TrimPrefix(path+"."+key, ".")) })
		case reflect.Slice:
			for i := range v.Len() {
				look(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	look(reflect.ValueOf(*c), "")
	return out
}
