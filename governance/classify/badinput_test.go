package classify

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// badInputs are what makes detectors look far, again and again: each is repeated to the length that is asked for.
func badInputs() map[string]string {
	return map[string]string{
		"digits": "1380013", "zeros": "0", "letters": "abcdefgh", "capitals": "ABCDEFGH", "hexadecimal": "a1b2c3", "Han": "今天市民反映", "names": "王李张", "spaces": " ", "line breaks": "\n",
		"at signs": "@", "dots": ".", "equals signs": "=", "quotes": `"'`, "colons": ":", "dashes": "-", "slashes": "/", "brackets": "([{【", "closing brackets": ")]}】", "digits and blanks": "1 ",
		"digits and dots": "1.", "digits and dashes": "12-", "pairs": "0a:", "local parts": "a.b_c-", "names of hosts": "a.com.", "numerals": "一二三四五", "tens": "十", "companies": "甲在有限 ", "words": "the quick ", "broken addresses": "zhang @ ",
		"labels of names": "姓名：", "labels of identities": "身份证号：", "labels of accounts": "微信：", "keys": "password=", "keys and quotes": `password="`, "Chinese keys": "密码是", "private keys": "-----BEGIN ",
		"ends of private keys": "-----END ", "tokens": "eyJ", "addresses with users": "http://a:", "bearers": "Bearer ", "full width": "１３８", "invalid UTF-8": "\xff\xe4\xb8", "no width": "\u200b", "escapes": `\u5f20`,
		"open escapes": `\u`, "percent signs": "%E5%BC", "entities": "&#x5", "base64": "MTM4MDAxMzgwMDA", "divisions": "北京市朝阳区", "houses": "1号2号", "courts": "（2024）京", "plates": "京A", "embedded nulls": "\x00",
		"plus signs": "+86", "tables": "|1|", "json": `{"a":[`, "labels of places": "地址：", "labels of mail": "邮箱 a ", "titles": "先生", "emoji": "😀👋", "codes": "A1 ", "logins": "root/", "letters and dashes": "a-", "digits and dashes between": "1-",
	}
}

func repeated(unit string, size int) string {
	return strings.Repeat(unit, size/len(unit)+1)[:size]
}

// TestBadInputTakesLinearTime: ten times the text takes about ten times as long, and memory.
func TestBadInputTakesLinearTime(t *testing.T) {
	small, large := 2_000, 20_000
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		small, large = 100_000, 1_000_000
	} else if testing.Short() {
		t.Skip("takes seconds")
	}
	set := New(Classes()...)
	set.Find("password=")
	for name, unit := range badInputs() {
		text := repeated(unit, large)
		least := fastest(set, text[:small])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := time.Now()
		set.Find(text)
		most := time.Since(begun)
		runtime.ReadMemStats(&after)
		if limit := 12*max(least, 2*time.Millisecond) + 100*time.Millisecond; most > 2*limit && fastest(set, text) > limit {
			t.Errorf("%s: %d bytes take %v, %d take %v", name, small, least, large, most)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) / uint64(large); used > 1000 {
			t.Errorf("%s: %d bytes of memory for each byte of text", name, used)
		}
	}
}

// TestMegabyteLine: one line of a megabyte takes seconds at most, of whatever it is made.
func TestMegabyteLine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	set := New(Classes()...)
	for _, name := range []string{"digits", "letters", "Han", "spaces", "at signs", "dots", "brackets", "labels of names", "keys"} {
		begun := time.Now()
		found := set.Find(repeated(badInputs()[name], 1_000_000))
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("%s: %v, %d findings", name, took, len(found))
		}
	}
}

func fastest(set *Set, text string) time.Duration {
	best := time.Hour
	for range 2 {
		begun := time.Now()
		set.Find(text)
		best = min(best, time.Since(begun))
	}
	return best
}

// TestBadInputIsNotHeldBack: what a stream keeps is bounded, whatever comes, apart from private keys, whose pieces are long.
func TestBadInputIsNotHeldBack(t *testing.T) {
	set := New(Classes()...)
	for name, unit := range badInputs() {
		text := repeated(unit, 12_000)
		s, held := set.Scanner(), 0
		for len(text) > 0 {
			n := min(len(text), 777)
			s.Write(text[:n])
			held = max(held, s.Held())
			text = text[n:]
		}
		s.Close()
		if held > 4_000 {
			t.Errorf("%s: %d bytes held back", name, held)
		}
	}
}
