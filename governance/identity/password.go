package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/sluice-project/sluice/internal/fault"
)

// Parameters of new password hashes (OWASP's first choice for argon2id). They are recorded in each hash, so raising them here
// leaves stored ones valid.
const (
	argonMemory  = 19 * 1024 // KiB
	argonTime    = 2
	argonThreads = 1
	argonSalt    = 16
	argonKey     = 32

	minPassword = 12
	maxPassword = 256
)

func checkPassword(param, password string) error {
	if n := utf8.RuneCountInString(password); n < minPassword || len(password) > maxPassword || !utf8.ValidString(password) {
		return invalid(param, fault.Say("identity.password_length", minPassword, maxPassword))
	}
	return nil
}

func hashPassword(password string) string {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	return encodeHash(salt, key)
}

func encodeHash(salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

// unknownUserHash is what the password of a user who does not exist is compared with: same work, never equal, since no password
// has an all-zero key.
func unknownUserHash() string { return encodeHash(make([]byte, argonSalt), make([]byte, argonKey)) }

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
