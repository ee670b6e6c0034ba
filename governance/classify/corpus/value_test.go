package corpus

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCheckCharacters compares with numbers from the standards and from their well-known examples.
func TestCheckCharacters(t *testing.T) {
	raw := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct{ name, got, want string }{
		{"GB 11643", citizenCheck("11010519491231002"), "X"},
		{"GB 11643", citizenCheck("44052418800101001"), "4"},
		{"GB 32100", creditCheck("91350100M000100Y4"), "3"},
		{"GB 11714", organisationCheck("D2143569"), "X"},
		{"ISO 7064", hybridCheck("0794"), "5"},
		{"Luhn", withLuhn("411111111111111"), "4111111111111111"},
		{"IMEI", withLuhn("49015420323751"), "490154203237518"},
		{"VIN", vinCheck("1M8GDM9A0KP042788"), "X"},
		{"Hong Kong", hongKongCheck("A", "123456"), "3"},
		{"Taiwan", taiwanCheck("A", "12345678"), "9"},
		{"base58", base58Check(0, raw("010966776006953D5567439E5E39F86A0D273BEE")), "16UwLL9Risc3QfPqBUvKofHmBQ7wMtjvM"},
		{"bech32", bech32(0, raw("751e76e8199196d454941c45d1b3a323f1433bd6")), "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
		{"bech32m", bech32(1, raw("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")), "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"},
		{"EIP-55", checksummed(raw("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")), "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

// shapes say roughly what a value of a class looks like.
var shapes = map[string]string{
	"cn_resident_id": `^[0-9 -]{14,19}[0-9xX]$`, "cn_mobile": `^[+(0-9][-+86(). 0-9]{10,}$`, "cn_landline": `^[（(+]?[0-9]{1,4}.*[0-9]{3,}$`,
	"bank_card": `^[0-9][0-9 -]{13,24}$`, "bank_account": `^[0-9][0-9 -]{11,25}$`, "email": `^[A-Za-z0-9._+-]+@[a-z0-9.]+$`,
	"ipv4": `^[0-9]+(\.[0-9]+){3}$`, "ipv6": `(?i)^[0-9a-f:]+:[0-9a-f]+$`, "mac_address": `(?i)^[0-9a-f]{2,4}([-:.][0-9a-f]{2,4}){2,5}$`,
	"cn_plate": `(?i)^(WJ|\p{Han}[A-Z])[ ·-]?.{5,7}$`, "vin": `(?i)^[0-9A-HJ-NPR-Z]{17}$`, "cn_uscc": `(?i)^[0-9A-HJ-NPQRTUWXY ]{18,22}$`,
	"cn_business_licence": `^[0-9]{15}$`, "cn_passport": `^[A-Za-z0-9]{8,9}$`, "cn_travel_permit": `^[CLTWHM]?[A-Z]?[0-9]{7,10}(\([A-D]\))?$`,
	"cn_foreign_permit": `^(9[0-9]{16}[0-9X]|[A-Z]{3}[0-9]{12})$`, "hk_id": `(?i)^[A-Z]{1,2} ?[0-9]{6} ?[(（]?[0-9A][)）]?$`,
	"macau_id": `^[157]/?[0-9]{6}[/(（]?[0-9][)）]?$`, "tw_id": `(?i)^[A-Z][1289][0-9]{8}$`, "cn_officer_id": `^([0-9]{6}|\p{Han}字第?[0-9]{6,8}号)$`,
	"cn_social_security": `^[A-Z]?[0-9]{8,20}$`, "medical_record": `^[A-Z0-9加+-]+$`, "utility_account": `^(DB)?[0-9]{8,13}$`,
	"court_case": `[（(〔\[][0-9]{4}[）)〕\]].*号(之一)?$`, "wechat": `^[A-Za-z][A-Za-z0-9_-]{5,19}$`, "qq": `^[1-9][0-9]{4,10}$`,
	"coordinates": `[0-9]{2}`, "imei": `^[0-9-]{15,18}$`, "iccid": `^8986[0-9]{16}$`, "imsi": `^460[0-9]{12}$`,
	"crypto_address": `^(0x[0-9a-fA-F]{40}|bc1[a-z0-9]{39,59}|[13T][1-9A-HJ-NP-Za-km-z]{25,34})$`, "api_secret": `.{8}`, "person": `^[\p{Han}·0-9]{1,13}$`, "address": `[路街村号道里园苑区市栋幢座楼].*[0-9家组社]|[0-9]+-[0-9]+-[0-9]+`,
}

// TestValuesHaveTheirShape makes many values of every class in surroundings that ask for their variants.
func TestValuesHaveTheirShape(t *testing.T) {
	for _, class := range DefaultClasses() {
		shape, ok := shapes[class]
		if !ok {
			t.Errorf("no shape of %s", class)
			continue
		}
		re, seen := regexp.MustCompile(shape), map[string]bool{}
		for _, before := range []string{"", "号码：", "警号", "台胞证", "回乡证", "外籍护照", "一代证", "经度", "物联网卡", "电脑号"} {
			for i := range 60 {
				s := scene{random: newRandom(class, before, string(rune(i))), family: "court", noise: "clean", before: before}
				v := s.value(class)
				if !re.MatchString(v.text) {
					t.Errorf("%s: %q", class, v.text)
				}
				seen[v.text] = true
			}
		}
		if len(seen) < 100 {
			t.Errorf("%s: only %d different values", class, len(seen))
		}
	}
	for _, filler := range fillers() {
		if v := (&scene{random: newRandom(filler)}).value(filler); v.text == "" || v.text == filler {
			t.Errorf("{%s} becomes %q", filler, v.text)
		}
	}
}

func TestVariantsFollowTheirLabels(t *testing.T) {
	make := func(class, before, after string, i int) string {
		return (&scene{random: newRandom(before, string(rune(i))), before: before, after: after}).value(class).text
	}
	for i := range 200 {
		for _, c := range []struct{ class, before, after, shape string }{
			{"cn_travel_permit", "台胞证号：", "", `^[0-9]{8,10}`},
			{"cn_travel_permit", "港澳通行证 ，往来台湾通行证", "", `^[LT]`},
			{"cn_officer_id", "警号", "", `^[0-9]{6}$`},
			{"person", "联系", "先生", `^[^先]+$`},
			{"medical_record", "床号：", "", `^.{1,5}$`},
			{"age", "今年", "岁", `^[0-9]+$`},
			{"amount", "合计", "元", `[0-9]$`},
			{"cn_resident_id", "居住证", "", `^8[123]0000`},
		} {
			if v := make(c.class, c.before, c.after, i); !regexp.MustCompile(c.shape).MatchString(v) {
				t.Fatalf("%s after %q: %q", c.class, c.before, v)
			}
		}
	}
}

// TestTitlesAreNoPartOfNames: in both sets, whoever made the text, a marked name does not end with a title, and many titles stand behind one.
func TestTitlesAreNoPartOfNames(t *testing.T) {
	all := slices.DeleteFunc(slices.Concat(titles(), honorifics()), func(w string) bool { return w == "某" })
	for _, name := range []string{"tune", "gate"} {
		set, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		behind := 0
		for _, d := range set.Documents {
			text := []rune(d.Text)
			for _, s := range d.Spans {
				if s.Type != "person" {
					continue
				}
				name, rest := string(text[s.Start:s.End]), string(text[s.End:])
				if slices.ContainsFunc(all, func(w string) bool { return strings.HasSuffix(name, w) }) {
					t.Errorf("%s: the title is inside of the name %q", d.ID, name)
				}
				if s.End-s.Start == 1 && slices.ContainsFunc(titles(), func(w string) bool { return strings.HasPrefix(rest, w) }) {
					behind++
				}
			}
		}
		if behind < 200 {
			t.Errorf("%s: only %d surnames with a title behind them", name, behind)
		}
	}
}

// TestSixtyKindsOfSecrets counts the shapes that their prefix tells apart; passwords, connection strings and private keys come on top.
func TestSixtyKindsOfSecrets(t *testing.T) {
	kinds := map[string]bool{}
	for _, shape := range strings.Fields(tokens) {
		prefix, _, _ := strings.Cut(shape, "%")
		kinds[prefix] = true
		if v := newRandom(shape).expand(shape); strings.Contains(v, "%") || len(v) < 16 {
			t.Errorf("%s becomes %q", shape, v)
		}
	}
	if len(kinds) < 60 {
		t.Errorf("%d kinds", len(kinds))
	}
}

func TestChineseNumber(t *testing.T) {
	for n, want := range map[int]string{1: "一", 10: "十", 12: "十二", 20: "二十", 105: "一百零五", 110: "一百一十", 1001: "一千零一", 999: "九百九十九"} {
		if got := chineseNumber(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
