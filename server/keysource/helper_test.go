package keysource

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/message"
)

// TestMain lets the test binary act as a helper.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "as-helper" {
		actAsHelper(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func testHelper(t *testing.T, how string) Helper {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HELPER_MAY_SEE", "yes")
	t.Setenv("HELPER_MUST_NOT_SEE", "canary")
	return Helper{Command: []string{program, "as-helper", how}, Environment: []string{"HELPER_MAY_SEE"}}
}

// actAsHelper is a helper whose key is in its program: what it wraps it turns over. It has two keys, and seals with the second if rotated.
func actAsHelper(how string) {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	words := strings.Fields(line)
	turned := func(text, id string) string {
		b, _ := base64.StdEncoding.DecodeString(text)
		for i := range b {
			b[i] ^= 0x5a ^ id[len(id)-1]
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	switch {
	case how == "silent":
	case how == "exits":
		os.Exit(3)
	case how == "hangs":
		never := make(chan os.Signal, 1) // a bare select would be a deadlock to the runtime, which would end it
		signal.Notify(never, syscall.SIGUSR1)
		<-never
	case how == "nonsense":
		fmt.Println("canary what?")
	case how == "two lines":
		fmt.Println("ok k QUJD\nok k QUJD")
	case how == "endless":
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
			if os.Getppid() == 1 {
				return
			}
			if _, err := os.Stdout.WriteString("y"); err != nil {
				return
			}
		}
	case how == "refuses" || os.Getenv("HELPER_MUST_NOT_SEE") != "" || os.Getenv("HELPER_MAY_SEE") != "yes":
		fmt.Println("error pin the PIN is wrong; set it anew\a")
		os.Exit(1)
	case len(words) == 3 && words[0] == "wrap" && words[1] == "1":
		id := map[string]string{"good": "slot-1", "rotated": "slot-2", "forgets": "slot-1"}[how]
		fmt.Println("ok", id, turned(words[2], id))
	case len(words) == 4 && words[0] == "unwrap" && words[1] == "1":
		switch {
		case how == "rotated" && words[2] == "slot-1" && os.Getenv("HELPER_MAY_SEE") != "yes", how == "forgets":
			fmt.Println("error key there is no key", words[2])
		case how == "other":
			fmt.Println("ok slot-9", words[3])
		default:
			fmt.Println("ok", words[2], turned(words[3], words[2]))
		}
	default:
		fmt.Println("error request what is this?")
	}
}

func TestHelperFailures(t *testing.T) {
	for how, id := range map[string]message.ID{
		"silent": "keysource.helper_answer", "exits": "keysource.helper_failed", "nonsense": "keysource.helper_answer", "two lines": "keysource.helper_answer",
		"hangs": "keysource.helper_slow", "refuses": "keysource.helper_refused", "forgets": "keysource.helper_refused", "other": "keysource.helper_answer", "missing": "keysource.helper_failed",
	} {
		t.Run(how, func(t *testing.T) {
			cfg := installation(t, KindHelper)
			cfg.Helper = testHelper(t, "good")
			sealIt(t, cfg, nil)
			cfg.Helper = testHelper(t, how)
			switch how {
			case "hangs":
				cfg.Helper.Timeout = 300 * time.Millisecond
			case "missing":
				cfg.Helper.Command = []string{"/nowhere/helper"}
			}
			_, err := New(cfg).Open(t.Context())
			if !Is(err, id) {
				t.Fatalf("%v", err)
			}
			if strings.ContainsAny(err.Error(), "\a\n") || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error()+inChinese(err), "%!") {
				t.Errorf("shown: %v", err)
			}
		})
	}
}

func TestHelperAnswers(t *testing.T) {
	for text, ok := range map[string]bool{
		"ok k QUJD\n": true, "error pin wrong PIN\n": true, "error pin\n": true,
		"": false, "ok k QUJD": false, "ok k QUJD\n\n": false, "ok k\n": false, "ok  QUJD\n": false, "ok k QUJ\n": false, "ok k QUJD QUJD\n": false, "ok k QUJD\r\n": false, "error \n": false, "okk QUJD\n": false, "OK k QUJD\n": false,
	} {
		if a, err := parseHelper([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

func FuzzHelperAnswer(f *testing.F) {
	for _, s := range []string{"ok k QUJD\n", "error pin wrong\n", "ok", "error  \n", "ok k QUJD\nx"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseHelper(b)
		if err == nil && (a.word == "") == (len(a.text) == 0) {
			t.Errorf("%q: %+v", b, a)
		}
		if strings.ContainsAny(a.said+a.word, "\n\r\x00\x1b") || len(a.said) > 210 {
			t.Errorf("%q: says %q", b, a.said)
		}
	})
}

func FuzzSealed(f *testing.F) {
	s := Sealed{Format: 1, Kind: KindShares, KeyID: "0011aabbccdd", SealedAt: time.Unix(1e9, 0).UTC(), Check: "0011223344556677", Suite: "intl", Shares: 3, Threshold: 2, Wrapped: "QUJD"}
	f.Add(s.encode())
	f.Add([]byte(`{"format":1,"kind":"transit","key_id":"transit/a:v1","sealed_at":"2026-01-01T00:00:00Z","check":"0011223344556677","wrapped":"vault:v1:QUJD"}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSealed(b)
		if err != nil {
			return
		}
		again, err := parseSealed(s.encode())
		if err != nil || !again.SealedAt.Equal(s.SealedAt) {
			t.Fatalf("%s: %v", b, err)
		}
		again.SealedAt = s.SealedAt
		if again != s {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}

func FuzzShare(f *testing.F) {
	texts, err := split(make([]byte, 32), ofSealingKey, Split{3, 2})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range append(texts, "", "SLUICE1-S-2OF3-1", strings.ToLower(texts[0])) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseShare(text)
		if err != nil {
			return
		}
		if want := strings.ToUpper(strings.Join(strings.Fields(text), "")); s.String() != want {
			t.Errorf("%q became %q", want, s)
		}
		if _, err := joined([]share{s}, s.of); err == nil {
			t.Errorf("one share is enough: %q", text)
		}
	})
}
