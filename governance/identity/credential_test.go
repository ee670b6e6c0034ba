package identity

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

func TestCredentialsAreWellFormedAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		id, credential := newCredential()
		got, ok := parseCredential(credential)
		if !ok || got != id || seen[id] {
			t.Fatalf("id %q parsed as %q, %v", id, got, ok)
		}
		seen[id] = true
	}
}

func TestRandomTextIsEven(t *testing.T) {
	counts := map[rune]int{}
	const n = 62 * 2000
	for _, r := range randomText(n) {
		counts[r]++
	}
	for r, c := range counts {
		if math.Abs(float64(c)-2000) > 6*math.Sqrt(2000) {
			t.Errorf("%q occurs %d times, want about 2000", r, c)
		}
	}
	if len(counts) != 62 {
		t.Errorf("%d characters occur", len(counts))
	}
}

func FuzzParseCredential(f *testing.F) {
	_, credential := newCredential()
	f.Add(credential)
	f.Add("sk-sluice-")
	f.Add("sk-sluice-AAAAAAAAAAAA-" + strings.Repeat("'", keySecretSize))
	f.Add("sk-sluice-AAAAAAAAAAAA\x00" + strings.Repeat("a", keySecretSize))
	f.Add(strings.Repeat("é", 4000))
	i := &Identity{cfg: Config{}.WithDefaults(), keys: newDigester(ring().Derive("x")), now: time.Now}
	i.accounts = only(f, &accounts{})
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := parseCredential(s)
		if ok && (!isBase62(id) || s != keyHead+id+s[len(keyHead)+keyPrefixSize:] || len(s) != len(keyHead)+keyPrefixSize+1+keySecretSize) {
			t.Errorf("accepted %q as key %q", s, id)
		}
		for _, plane := range []Plane{DataPlane, AdminPlane, "", "x"} {
			_, err := i.Authenticate(context.Background(), plane, s, "198.51.100.7")
			if err == nil || fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("plane %q: %v", plane, err)
			}
			if len(s) > 8 && strings.Contains(err.Error(), s) {
				t.Error("the error holds the credential")
			}
		}
	})
}

func TestPasswordHashes(t *testing.T) {
	cost := PasswordCost{}.withDefaults()
	h := cost.hash(password)
	if !verifyPassword(h, password) || verifyPassword(h, password+"x") || h == cost.hash(password) {
		t.Error("hash of", h)
	}
	if verifyPassword(h, h) {
		t.Error("the hash must not open the account")
	}
	if verifyPassword(cost.unknownUser(), password) || verifyPassword(cost.unknownUser(), "") {
		t.Error("the unknown user has no password")
	}
	if a, b := strings.Split(h, "$"), strings.Split(cost.unknownUser(), "$"); a[3] != b[3] {
		t.Error("an unknown user must cost the same work")
	}
	for _, bad := range []string{
		"", "$", password, strings.Replace(h, "argon2id", "argon2i", 1), strings.Replace(h, "m=19456", "m=99999999", 1),
		strings.Replace(h, "t=2", "t=0", 1), strings.Replace(h, "p=1", "p=0", 1), h[:len(h)-4],
	} {
		if verifyPassword(bad, password) {
			t.Errorf("accepted the hash %q", bad)
		}
	}
}

func TestThrottle(t *testing.T) {
	th := newThrottle()
	now := time.Unix(1000, 0)
	for n := range freePerPair {
		if _, w := th.begin("u", "s", now); w != 0 {
			t.Fatalf("attempt %d waits %s", n, w)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8} {
		want *= time.Second
		if _, w := th.begin("u", "s", now); w != want {
			t.Errorf("wait %s, want %s", w, want)
		}
		a, w := th.begin("u", "elsewhere", now)
		if w != 0 {
			t.Error("another source must not be locked out by this one")
		}
		a.succeeded(now)
		now = now.Add(want)
		if _, w := th.begin("u", "s", now); w != 0 {
			t.Errorf("still %s after waiting", w)
		}
	}
	for range 40 {
		now = now.Add(maxDelay)
		th.begin("u", "s", now)
	}
	if _, w := th.begin("u", "s", now); w != maxDelay {
		t.Errorf("the delay is %s, want the cap", w)
	}
	now = now.Add(forgetAfter + time.Second)
	a, w := th.begin("u", "s", now)
	if w != 0 {
		t.Error("old failures must be forgotten")
	}
	a.succeeded(now)
	for n := range freePerPair {
		if _, w := th.begin("u", "s", now); w != 0 {
			t.Errorf("after a success attempt %d waits %s", n, w)
		}
	}
}

// TestThrottleCountsNetworks: the addresses of one IPv6 subscriber are one source.
func TestThrottleCountsNetworks(t *testing.T) {
	for source, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "": "", "unix": "unix",
	} {
		if got := network(source); got != want {
			t.Errorf("network(%q) is %q, want %q", source, got, want)
		}
	}
	th := newThrottle()
	now := time.Unix(1000, 0)
	for range freePerPair {
		th.begin("u", "s", now)
	}
	first, again := th.wait("u", "s", now), th.wait("u", "s", now)
	if first != time.Second || again != time.Second || th.wait("u", "other", now) != 0 {
		t.Error("looking must show the wait and not count")
	}
}

func TestThrottleCountsASpray(t *testing.T) {
	th := newThrottle()
	now := time.Unix(1000, 0)
	for n := range freePerSource {
		if _, w := th.begin(fmt.Sprint("user", n), "one source", now); w != 0 {
			t.Fatalf("attempt %d waits %s", n, w)
		}
	}
	if th.wait("another", "one source", now) == 0 {
		t.Error("many users from one source must be slowed down")
	}
}

// TestThrottleFlood: invented names fill the table, but cannot wash out the account under attack.
func TestThrottleFlood(t *testing.T) {
	th := newThrottle()
	now := time.Unix(1000, 0)
	for range freePerPair {
		th.begin("victim", "attacker", now)
	}
	for n := range 2 * maxTracked {
		th.begin(fmt.Sprint("user", n), fmt.Sprint("source", n), now)
		if len(th.entries) > maxTracked+1 {
			t.Fatalf("%d entries", len(th.entries))
		}
	}
	if th.wait("victim", "attacker", now) == 0 {
		t.Error("a flood washed out the account under attack")
	}
}

// TestThrottleCountsAnAccount: guesses at one account from many networks add up, and only strangers wait for them.
func TestThrottleCountsAnAccount(t *testing.T) {
	th := newThrottle()
	now := time.Unix(1000, 0)
	home, _ := th.begin("victim", "home", now)
	home.succeeded(now)
	for n := range freePerAccount {
		if _, w := th.begin("victim", fmt.Sprint("bot", n), now); w != 0 {
			t.Fatalf("attempt %d waits %s", n, w)
		}
	}
	if th.wait("victim", "another bot", now) == 0 {
		t.Error("guesses from many networks are free")
	}
	if w := th.wait("victim", "home", now); w != 0 {
		t.Errorf("the owner waits %s at home", w)
	}
	if a, w := th.begin("victim", "home", now); w != 0 {
		t.Errorf("the owner waits %s at home", w)
	} else {
		a.succeeded(now)
	}
	if th.wait("victim", "another bot", now) == 0 {
		t.Error("the owner's success lets strangers guess again")
	}
	if th.wait("other", "another bot", now) != 0 {
		t.Error("another account waits, too")
	}
	// Who is at home may be guessing: at home failures count as ever.
	for range freePerPair {
		th.begin("victim", "home", now)
	}
	if th.wait("victim", "home", now) == 0 {
		t.Error("a known network guesses without end")
	}
	later := now.Add(knownFor + time.Second)
	for n := range freePerAccount {
		th.begin("victim", fmt.Sprint("bot", n), later)
	}
	if th.wait("victim", "home", later) == 0 {
		t.Error("a network is known for ever")
	}
}

// TestThrottleOfOthers: whoever signs in with an account of his own takes back that attempt, and no wait that guesses brought about, even if
// both overlap.
func TestThrottleOfOthers(t *testing.T) {
	th := newThrottle()
	now := time.Unix(1000, 0)
	for n := range freePerSource - 1 {
		th.begin(fmt.Sprint("user", n), "s", now)
	}
	own, w := th.begin("own", "s", now)
	if w != 0 {
		t.Fatal(w)
	}
	now = now.Add(2 * firstDelay)
	if _, w := th.begin("victim", "s", now); w != 0 {
		t.Fatal(w)
	}
	before := th.wait("victim", "s", now)
	own.succeeded(now)
	if after := th.wait("victim", "s", now); after != before || after == 0 {
		t.Errorf("the wait was %s and is %s after another account's success", before, after)
	}
	for range 20 {
		now = now.Add(maxDelay)
		a, _ := th.begin("own", "s", now)
		a.succeeded(now)
		if _, w := th.begin("victim", "s", now); w != 0 {
			t.Fatal("waits after the longest wait", w)
		}
	}
	if w := th.wait("victim", "s", now); w != maxDelay {
		t.Errorf("guesses between successes wait %s", w)
	}
}
