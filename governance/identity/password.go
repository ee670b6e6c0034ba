package identity

import (
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trustelem/zxcvbn"
	"golang.org/x/crypto/argon2"

	"github.com/sluice-project/sluice/internal/fault"
)

// PasswordCost is the work of an argon2id hash. It is recorded in each hash, so raising it leaves stored ones valid.
type PasswordCost struct{ MemoryKiB, Passes uint32 }

func (c PasswordCost) withDefaults() PasswordCost {
	if c == (PasswordCost{}) {
		return PasswordCost{19 * 1024, 2} // OWASP's first choice
	}
	return c
}

const (
	argonThreads = 1
	argonSalt    = 16
	argonKey     = 32

	minPassword = 12
	maxPassword = 256
)

// checkPassword refuses a password that is too short, or easy to guess for whoever knows whose it is. Names of the account and of the
// product do not count: what is left has to be long enough by itself.
func checkPassword(param, password, name, tenant string) error {
	if n := utf8.RuneCountInString(password); n < minPassword || len(password) > maxPassword || !utf8.ValidString(password) {
		return invalid(param, fault.Say("identity.password_length", minPassword, maxPassword))
	}
	rest, known := strings.ToLower(password), strings.Fields(commonPasswords)
	words := append(strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), name, tenant, "sluice")
	for _, word := range words {
		if utf8.RuneCountInString(word) >= 3 {
			rest, known = strings.ReplaceAll(rest, strings.ToLower(word), ""), append(known, word)
		}
	}
	for _, word := range known {
		if word[0] >= utf8.RuneSelf { // the estimator finds no such word
			rest = strings.ReplaceAll(rest, strings.ToLower(word), "")
		}
	}
	if utf8.RuneCountInString(rest) < minPassword || !hard(rest, password, known) {
		return invalid(param, fault.Say("identity.password_weak"))
	}
	return nil
}

// hard reports whether a password would take long to guess. The estimator knows nothing of characters beyond ASCII: several different ones are
// hard by themselves, and the rest is looked at without them. Numbers alone are telephones, dates and identity cards.
func hard(rest, password string, known []string) bool {
	other := map[rune]bool{}
	for _, r := range rest {
		if r >= utf8.RuneSelf {
			other[r] = true
		}
	}
	if len(other) >= minOther {
		return true
	}
	ascii := strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return -1
		}
		return r
	}, password)
	if strings.Trim(ascii, "0123456789 .-") == "" {
		return false
	}
	// What follows makes it no weaker, and takes time that grows faster than its length.
	return zxcvbn.PasswordStrength(ascii[:min(len(ascii), maxEstimated)], known).Score >= minScore
}

const (
	minScore     = 3  // of zxcvbn's 0 to 4: more than 10^8 guesses
	minOther     = 6  // different characters beyond ASCII
	maxEstimated = 64 // bytes
)

// commonPasswords are passwords, and parts of them, that lists of leaked ones from China begin with, and the estimator's own lists lack.
//
//go:embed common_passwords.txt
var commonPasswords string

func (c PasswordCost) hash(password string) string {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key := argon2.IDKey([]byte(password), salt, c.Passes, c.MemoryKiB, argonThreads, argonKey)
	return c.encode(salt, key)
}

func (c PasswordCost) encode(salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.MemoryKiB, c.Passes, argonThreads,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

// unknownUser is what the password of a user who does not exist is compared with: same work, never equal, since no password
// has an all-zero key.
func (c PasswordCost) unknownUser() string {
	return c.encode(make([]byte, argonSalt), make([]byte, argonKey))
}

// verifyPassword reports whether password matches the stored hash. A hash it cannot read matches nothing.
func verifyPassword(stored, password string) bool {
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false
	}
	var memory, time uint32
	var threads uint8
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &time, &threads); n != 3 || err != nil {
		return false
	}
	// A hostile row must not take the server's memory.
	if memory < 8 || memory > 256*1024 || time < 1 || time > 16 || threads < 1 || threads > 8 {
		return false
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(salt) < 8 || len(want) != argonKey {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, time, memory, threads, argonKey)
	return subtle.ConstantTimeCompare(got, want) == 1
}
