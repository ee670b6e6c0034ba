package profile_test

import (
	"testing"

	"github.com/sluice-project/sluice/engine/profile"
)

func set(t *testing.T, paths ...string) *profile.Set {
	t.Helper()
	s, err := profile.New(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestProfilesAreClean: nothing is wrong with any profile of the program.
func TestProfilesAreClean(t *testing.T) {
	s := set(t)
	for _, name := range s.Names() {
		for _, err := range s.Lint(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
