package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/number"
)

// Values made up for tests; check characters are right.
const (
	testID    = "11010519491231002X"
	testIDNum = "440524188001010014"
	testCard  = "6222021234567890128"
)

// luhnCard completes digits with the right check digit.
func luhnCard(digits string) string {
	for c := '0'; c <= '9'; c++ {
		if number.Luhn(digits + string(c)) {
			return digits + string(c)
		}
	}
	panic("unreachable")
}

// resident adds the check character of GB 11643 to seventeen digits.
func resident(body string) string {
	sum := 0
	for i, weight := range [17]int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2} {
		sum += int(body[i]-'0') * weight
	}
	return body + string("10X98765432"[sum%11])
}

func usccCode(body string) string {
	for _, c := range "0123456789ABCDEFGHJKLMNPQRTUWXY" {
		sc := New(USCC)
		if len(sc.Find(body+string(c))) == 1 {
			return body + string(c)
		}
	}
	panic("no check character fits")
}

type example struct {
	class Class
	text  string // the value stands between « and »; none: nothing may be found
}

func positives() []example {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nabc+/=\n-----END RSA PRIVATE KEY-----"
	return []example{
		{ResidentID, "«11010519491231002X»"},
		{ResidentID, "身份证«11010519491231002x»。"},
		{ResidentID, "«110105 19491231 002X»"},
		{ResidentID, "«１１０１０５１９４９１２３１００２Ｘ»"},
		{ResidentID, "«" + resident("31010119900307123") + "»号"},
		{ResidentID, "«810000" + resident("81000019900307123")[6:] + "»"},
		{ResidentID, "身份证号：«110105194912310021»"}, // wrong check digit, cued
		{ResidentID, "身份证号«110105491231002»"},     // old form, cued
		{Mobile, "电话«13800138000»请回电"},
		{Mobile, "ID«13800138000»"},
		{Mobile, "«138 0013 8000»"},
		{Mobile, "«138-0013-8000»,"},
		{Mobile, "«+86 138 0013 8000»"},
		{Mobile, "«+8613800138000»"},
		{Mobile, "«008613800138000»"},
		{Mobile, "«8613800138000»"},
		{Mobile, "«0086-138-0013-8000»"},
		{Mobile, "手机«１３８００１３８０００»"},
		{Mobile, "«1 3 8 0 0 1 3 8 0 0 0»"},
		{Mobile, "«138\u200b0013\u200b8000»"},
		{Mobile, "«1️⃣3️⃣8️⃣0️⃣0️⃣1️⃣3️⃣8️⃣0️⃣0️⃣0»️⃣"},
		{Mobile, "«٠١٣٨٠٠١٣٨٠٠٠»"},
		{Mobile, "编号A«19912345678»B"},
		{Landline, "«010-62345678»"},
		{Landline, "«(010) 6234-5678»"},
		{MAC, "网卡«00:1a:2b:3c:4d:5e»"},
		{Landline, "座机«0755-88886666»转"},
		{Landline, "座机«0755-88886666转8012»找值班室"},
		{Landline, "«+86 10 62345678»"},
		{Landline, "«0371-2345678»"},
		{Landline, "«01062345678»"},
		{BankCard, "卡号«" + luhnCard("622202123456789012") + "»"},
		{BankCard, "«6222 0212 3456 7890 128»"},
		{BankCard, "«4111 1111 1111 1111»"},
		{BankCard, "«4111-1111-1111-1111»"},
		{BankCard, "«378282246310005»"},
		{BankAccount, "账号：«1100223344556677»开户"}, // no prefix, no check digit, cued
		{Email, "邮箱«zhang.san@example.com»。"},
		{Email, "«a_b+c%d-e@mail.example.co.uk»,"},
		{Email, "发到«10001@qq.com»吧"},
		{Email, "«ｚｓ＠ｅｘａｍｐｌｅ．ｃｏｍ»"},
		{Email, "<«a@b.cn»>"},
		{Email, "«a@b.cn». Next"},
		{IPv4, "主机«192.168.10.24»宕机"},
		{IPv4, "http://«10.0.0.7»:8080/"},
		{IPv4, "«８.８.８.８»"},
		{IPv4, "ping «203.0.113.9»."},
		{IPv6, "«2001:db8::8a2e:370:7334»"},
		{IPv6, "地址«fe80::1ff:fe23:4567:890a»。"},
		{IPv6, "[«2001:db8::1»]:443"},
		{Plate, "车牌«京A12345»。"},
		{Plate, "«粤B·12345»"},
		{Plate, "«沪AD12345»"},
		{Plate, "«粤B12345D»"},
		{Plate, "«浙a1b2c3»"},
		{Plate, "«京A1234警»"},
		{Plate, "«京 A·12345»"},
		{USCC, "统一代码«" + usccCode("91110108MA01AB2C3") + "»。"},
		{Secret, "key=«AKIAIOSFODNN7EXAMPLE»"},
		{Secret, "«LTAI5tExample1234567»"},
		{Secret, "«ghp_abcdefghijklmnopqrstuvwxyz0123456789»"},
		{Secret, "用«sk-abcd1234efgh5678ijkl»调用"},
		{Secret, "«sk-sluice-abcdefghijkl-0123456789012345678901234567890123456789»"},
		{Secret, "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P»"},
		{Secret, "Authorization: Bearer «abcdefgh12345678.XYZ»"},
		{Secret, "password: «hunter2!x»"},
		{Secret, `{"password": "«hunter2!x»"}`},
		{Secret, "db_password=«Tr0ub4dor&3»"},
		{Secret, "密码是：«abc12345»，别外传"},
		{Secret, "postgres://sluice:«s3cr3t-pw»@db:5432/x"},
		{Secret, "前«" + pem + "»后"},
	}
}

func negatives() []string {
	return []string{
		"", " ", "拨打110、119、120、122或12345", "12315 12388 95588 96110", "400-800-8820", "4008008820", "800 810 8888", "010-12345", "010-95588",
		"110105194912310021",     // wrong check digit, no cue
		"110105194913310027",     // month 13
		"990105194912310020",     // no such province
		"订单20240102123456789012", // a long number
		"1380013800",             // ten digits
		"138001380001",           // twelve digits
		"23800138000",            // no mobile prefix
		"12800138000",            //
		"4111111111111112",       // Luhn
		"1700000000000 1700000000", "2024-01-02 03:04:05", "价格1,380,013.80元", "3.14159265358979323846",
		"版本 1.2.3.4", "v1.2.3.4", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "127.0.0.1", "0.0.0.0", "第1.2.3节",
		"std::vector", "a::b", "::", "::1", "12:30:45", "add::face",
		"@example.com", "a@b", "a@@b.com", "user@localhost", "@property", "见README.md",
		"新A股上市", "京东A123", "云A计划", "川I12345", "京A1234567", "京ABCDEF", "粤B1234",
		"911101080000000000", "91110108MA01AB2C30X",
		"the password is required", "password: required", "token count: 1024000", "max_tokens=256000", "Bearer authentication is used",
		"task-force of many", "sk-learn", "密码是必填项", "http://host:8080/path", "https://example.com:443 x@y",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		strings.Repeat("-", 600), strings.Repeat("=", 600), strings.Repeat("a ", 300), strings.Repeat("。", 300),
		"550e8400-e29b-41d4-a716-446655440000",
	}
}

// parse splits an example into its text and the wanted range.
func (e example) parse() (text string, start, end int) {
	start = strings.Index(e.text, "«")
	rest := strings.Replace(e.text, "«", "", 1)
	end = strings.Index(rest, "»")
	return strings.Replace(rest, "»", "", 1), start, end
}

func TestPositives(t *testing.T) {
	all := New()
	for _, e := range positives() {
		text, start, end := e.parse()
		got := all.Find(text)
		if len(got) != 1 || got[0].Class != e.class || got[0].Start != start || got[0].End != end {
			t.Errorf("%s in %q: found %+v, want [%d,%d)", e.class, text, got, start, end)
		}
	}
}

func TestNegatives(t *testing.T) {
	all := New()
	for _, text := range negatives() {
		if got := all.Find(text); len(got) != 0 {
			t.Errorf("found %+v in %q", got, text)
		}
	}
}

// TestNeighbours puts each class's value next to every kind of character. Where a neighbour makes it another value, that is said.
func TestNeighbours(t *testing.T) {
	values := map[Class]string{
		ResidentID: testID, Mobile: "13800138000", Landline: "010-62345678", BankCard: "4111111111111111", Email: "zs@example.com",
		IPv4: "203.0.113.9", IPv6: "2001:db8::8a2e:370:7334", Plate: "京A12345", USCC: usccCode("91110108MA01AB2C3"),
		Secret: "sk-abcd1234efgh5678ijkl",
	}
	neighbours := map[string]string{"han": "中", "full width": "，", "space": " ", "newline": "\n", "emoji": "😀", "bracket": "("}
	for class, value := range values {
		set := New(class)
		for name, n := range neighbours {
			text := n + value + n
			got := set.Find(text)
			if len(got) != 1 || got[0].Start != len(n) || got[0].End != len(n)+len(value) {
				t.Errorf("%s between %s: %+v", class, name, got)
			}
		}
	}
	for _, c := range []struct {
		class       Class
		left, right string
		want        bool
	}{
		{Mobile, "a", "b", true},
		{Mobile, "1", "", false},
		{Mobile, "", "1", false},
		{Mobile, "２", "", false},
		{ResidentID, "a", "", true},
		{ResidentID, "9", "", false},
		{ResidentID, "", "9", false},
		{ResidentID, "", "a", false},
		{BankCard, "a", "b", true},
		{BankCard, "1", "", false},
		{BankCard, "", "1", false},
		{IPv4, "a", "b", true},
		{IPv4, "1", "1", false},
		{IPv4, "v", "", false},
		{IPv4, "", ".5", false},
		{IPv6, "", "g", false},
		{IPv6, "a", "", false},
		{Plate, "", "9", false},
		{Plate, "a", "", true},
		{USCC, "a", "", false},
		{USCC, "", "a", false},
		{Secret, "a", "", false},
		{Landline, "", "9", false},
	} {
		if got := New(c.class).Find(c.left + values[c.class] + c.right); (len(got) > 0) != c.want {
			t.Errorf("%s between %q and %q: found %v, want %v", c.class, c.left, c.right, got, c.want)
		}
	}
}

func TestOverlapsAreUnited(t *testing.T) {
	// What stands before the sign of the e-mail address is also a mobile number.
	got := New().Find("邮箱13800138000@qq.com/x")
	if len(got) != 1 || got[0].Start != len("邮箱") || got[0].End != len("邮箱13800138000@qq.com") || got[0].Class != Email {
		t.Errorf("%+v", got)
	}
	// The password in an address is a secret and no local part of an e-mail address.
	got = New().Find("mysql://root:pw123456@db.example.com/x")
	if len(got) != 1 || got[0].Start != 13 || got[0].End != 13+len("pw123456") || got[0].Class != Secret {
		t.Errorf("%+v", got)
	}
	two := New().Find("13800138000、13900139000")
	if len(two) != 2 {
		t.Errorf("neighbours must stay apart: %+v", two)
	}
}

func TestValueIsCanonical(t *testing.T) {
	for text, want := range map[string]string{
		"+86 138-0013-8000": "13800138000", "１３８００１３８０００": "13800138000", "110105194912310 02x": testID,
		"Zhang@Example.COM": "zhang@example.com", "京 A·12345": "京A12345", "4111 1111 1111 1111": "4111111111111111",
	} {
		n := 0
		New().Each(text, func(s Segment) {
			if s.Class != "" {
				n++
				if s.Value != want {
					t.Errorf("%q: value %q, want %q", text, s.Value, want)
				}
			}
		})
		if n != 1 {
			t.Errorf("%q: %d findings", text, n)
		}
	}
}

func TestOnlyChosenClasses(t *testing.T) {
	text := "13800138000 zs@example.com " + testID
	if got := New(Email).Find(text); len(got) != 1 || got[0].Class != Email {
		t.Errorf("%+v", got)
	}
	if got := New().Only(func(c Class) bool { return c == Mobile }).Find(text); len(got) != 1 || got[0].Class != Mobile {
		t.Errorf("%+v", got)
	}
	if !New().Only(func(Class) bool { return false }).Empty() || New().Empty() {
		t.Error("Empty")
	}
	if got := New("nonsense").Find(text); got != nil {
		t.Errorf("%+v", got)
	}
}

// TestOverLongValuesAreMaskedWhole: nothing of a value longer than the limit is released, whatever its length.
func TestOverLongValuesAreMaskedWhole(t *testing.T) {
	for _, n := range []int{255, 256, 257, 511, 512, 513, 5000} {
		for head, alphabet := range map[string]string{"sk-": "a1", "token=": "x9", "": "a1", "https://u:": "p4"} {
			released := ""
			New().Each("见 "+head+strings.Repeat(alphabet, n)+" 完", func(s Segment) {
				if s.Class == "" {
					released += s.Text
				}
			})
			if strings.Contains(released, alphabet) {
				t.Errorf("%q and %d characters: released %d bytes", head, 2*n, len(released))
			}
		}
	}
	long := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkq\n", 3000) + "-----END PRIVATE KEY-----"
	if got := New().Find("a" + long + "b"); len(got) < 3 || got[0].Start != 1 || got[len(got)-1].End != len(long)+1 {
		t.Errorf("%d findings", len(got))
	}
	if got := New().Find("-----BEGIN PRIVATE KEY-----\nMII"); len(got) != 1 || got[0].End != 31 {
		t.Errorf("a key without an end must be masked to the end: %+v", got)
	}
}

// flatten joins plain segments, so that two scans can be compared.
func flatten(segments []Segment) string {
	var b strings.Builder
	for _, s := range segments {
		if s.Class == "" {
			b.WriteString(s.Text)
		} else {
			fmt.Fprintf(&b, "«%s|%s|%s|%d|%g»", s.Class, s.Text, s.Value, s.Start, s.Score)
		}
	}
	return b.String()
}

func scanPieces(set *Set, pieces ...string) string {
	sc := set.Scanner()
	var out []Segment
	for _, p := range pieces {
		out = append(out, sc.Write(p)...)
	}
	return flatten(append(out, sc.Close()...))
}

// TestEverySplit cuts every example at every pair of bytes, also inside runes, and byte by byte.
func TestEverySplit(t *testing.T) {
	set := New()
	var texts []string
	values := map[string]bool{}
	for _, e := range positives() {
		text, _, _ := e.parse()
		values[text] = true
		texts = append(texts, text, "请"+text, text+"1")
	}
	overlapping := []string{ // findings that unite with one that is open when they are decided
		"mysql://root:pw123456@db.example.com/x", "password=13800138000@qq.com", "token: 203.0.113.9abc@example.com。", "密码:京A12345z",
		"1 138 0013 8000 13900139000", "+86 010-62345678-12 13800138000", "2001:db8::1@a.cn", "pwd=" + testID + "@b.cn ",
	}
	for _, text := range overlapping {
		values[text] = true
	}
	texts = append(texts, overlapping...)
	for _, text := range append(texts, negatives()...) {
		want := scanPieces(set, text)
		if got := scanPieces(set, strings.Split(text, "")...); got != want {
			t.Errorf("rune by rune: %s\nwant %s", got, want)
		}
		if len(text) > 60 || !values[text] { // pairs of cuts only where they are few
			for i := range len(text) {
				if got := scanPieces(set, text[:i], text[i:]); got != want {
					t.Errorf("cut at %d: %s\nwant %s", i, got, want)
				}
			}
			continue
		}
		for i := range len(text) {
			for j := i; j < len(text); j++ {
				if got := scanPieces(set, text[:i], text[i:j], text[j:]); got != want {
					t.Fatalf("cuts at %d and %d: %s\nwant %s", i, j, got, want)
				}
			}
		}
	}
}

// TestCounter: who only counts is told of the same findings as everybody, however the text was cut, and no text is held for that.
func TestCounter(t *testing.T) {
	set, found := New(), 0
	list := func(segments []Segment) (out string) {
		for _, s := range segments {
			if s.Class != "" {
				out += fmt.Sprintf("%s@%d/%g ", s.Class, s.Start, s.Score)
			}
		}
		return out
	}
	for _, e := range positives() {
		text, _, _ := e.parse()
		sc := set.Scanner()
		want := list(sc.Write(text)) + list(sc.Close())
		for _, size := range []int{1, 2, 5, len(text)} {
			counter, got := set.Counter(), ""
			for range 2 { // it begins anew when it is closed
				got = ""
				for rest := text; rest != ""; {
					n := min(size, len(rest))
					for _, s := range counter.Write(rest[:n]) {
						if s.Class == "" || s.Text != "" || s.Value != "" {
							t.Fatalf("%s: %+v", text, s)
						}
						got += list([]Segment{s})
						found++
					}
					rest = rest[n:]
					if n := len(counter.buf); n > 12 {
						t.Fatalf("%s: %d bytes are held", text, n)
					}
				}
				got += list(counter.Close())
			}
			if got != want {
				t.Errorf("%s, in pieces of %d: %s, want %s", text, size, got, want)
			}
		}
	}
	if found == 0 {
		t.Error("nothing was found before the end")
	}
}

// TestPlainTextCostsNoAllocation: a stream in which nothing is found allocates nothing while nothing of it waits, and for a counter never.
func TestPlainTextCostsNoAllocation(t *testing.T) {
	words := strings.SplitAfter("The quick brown fox jumps over lazy dogs, twice; see the report. ", " ")
	for name, c := range map[string]struct {
		sc     *Scanner
		pieces []string
	}{
		"scanner": {New().Scanner(), []string{"，", "了", "。", "的", ". "}}, "counter": {New().Counter(), words},
	} {
		for range 10 { // room is made
			for _, p := range c.pieces {
				c.sc.Write(p)
			}
		}
		if n := testing.AllocsPerRun(100, func() {
			for _, p := range c.pieces {
				c.sc.Write(p)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations for %d pieces", name, n, len(c.pieces))
		}
	}
}

// TestHoldBackIsShort: on plain prose, fed rune by rune, 95 of 100 times at most 24 runes are held back, and none of Han alone.
func TestHoldBackIsShort(t *testing.T) {
	const prose = "The quick brown fox jumps over 13 lazy dogs, twice; see sections 3.1 and 4.2 of the report. " +
		"今天天气很好，我们去公园散步吧。2026年11月21日，温度 21.5 度，共 35 人参加，费用 1,280 元，由 Zhang 先生支付。"
	for name, set := range map[string]*Set{"all": New(), "secrets": New(Secret)} {
		sc := set.Scanner()
		var held []int
		for _, r := range prose {
			sc.Write(string(r))
			held = append(held, utf8.RuneCountInString(sc.buf))
		}
		slices.Sort(held)
		if p95 := held[len(held)*95/100]; p95 > 24 || name == "secrets" && p95 > 8 {
			t.Errorf("%s: 95th percentile of held runes is %d", name, p95)
		}
		sc.Close()
		sc.Write("今天")
		if sc.Held() != 0 {
			t.Errorf("%s: %d bytes of plain Han are held back", name, sc.Held())
		}
	}
}

// TestALineToFillInIsNotWaitedFor: behind what may begin a label, a number waits for few of the blanks and lines of a form.
func TestALineToFillInIsNotWaitedFor(t *testing.T) {
	for _, fill := range []string{" ", "_", "\n"} {
		sc, held := New(Mobile).Scanner(), 0
		for _, piece := range append([]string{"13800138000 patient"}, slices.Repeat([]string{fill}, 2000)...) {
			sc.Write(piece)
			held = max(held, sc.Held())
		}
		if held > 1100 { // underscores may be base64
			t.Errorf("%d characters are held back before a line of %q", held, fill)
		}
	}
}

func checkFindings(t *testing.T, text string, found []Finding) {
	t.Helper()
	last := 0
	for _, f := range found {
		if f.Start < last || f.End <= f.Start || f.End > len(text) || f.Score <= 0 || f.Score > 1 {
			t.Fatalf("finding %+v behind %d of %d", f, last, len(text))
		}
		if utf8.ValidString(text) && (!utf8.ValidString(text[:f.Start]) || !utf8.ValidString(text[f.Start:f.End])) {
			t.Fatalf("finding %+v cuts a rune", f)
		}
		last = f.End
	}
}

func FuzzFind(f *testing.F) {
	for _, e := range positives() {
		text, _, _ := e.parse()
		f.Add(text, uint16(3), uint16(9))
	}
	for _, text := range negatives() {
		f.Add(text, uint16(1), uint16(2))
	}
	f.Add("a@b.c\xff\xfe@例え.jp \xe4\xb8", uint16(5), uint16(6))
	set := New()
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		checkFindings(t, text, set.Find(text))
		var rebuilt strings.Builder
		set.Each(text, func(s Segment) { rebuilt.WriteString(s.Text) })
		if rebuilt.String() != text {
			t.Fatal("the segments are not the text")
		}
		if len(text) == 0 {
			return
		}
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		if got, want := scanPieces(set, text[:i], text[i:j], text[j:]), scanPieces(set, text); got != want {
			t.Fatalf("cuts at %d and %d: %s\nwant %s", i, j, got, want)
		}
	})
}

func BenchmarkFindChinese(b *testing.B) {
	text := strings.Repeat("市民来电反映小区供暖不足，联系电话13800138000，希望尽快处理。", 100)
	set := New()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set.Find(text)
	}
}

func BenchmarkFindEnglish(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over 13 lazy dogs; write to fox@example.com today. ", 100)
	set := New()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set.Find(text)
	}
}

// TestWorkIsLinear: sixteen times the text takes some sixteen times as long for texts that are bad for each detector. The bound is
// loose, because the machine may be busy; quadratic work would exceed it many times over.
func TestWorkIsLinear(t *testing.T) {
	set := New()
	fastest := func(text string) time.Duration {
		best := time.Hour
		for range 3 {
			start := time.Now()
			set.Find(text)
			best = min(best, time.Since(start))
		}
		return best
	}
	for _, unit := range []string{"1 ", "1.2.", "a@", "a@b.cn", "password:", "https://a:", "-----BEGIN PRIVATE KEY-----", "京A1", "f:", "0086-", "a", "lihua_88、", "微信wx_", "anananan微", "QQ12345、"} {
		const n = 1600
		small, large := fastest(strings.Repeat(unit, n/len(unit))), fastest(strings.Repeat(unit, 16*n/len(unit)))
		for range 4 { // a busy machine stops now and then
			if large > 160*max(small, 50*time.Microsecond) {
				large = min(large, fastest(strings.Repeat(unit, 16*n/len(unit))))
			}
		}
		if large > 160*max(small, 50*time.Microsecond) {
			t.Errorf("%q: %s for %d bytes, %s for sixteen times as many", unit, small, n, large)
		}
	}
}
