package classify

import (
	"strings"
	"testing"
)

// fuzzCodes checks on any text that findings are in order and inside, that the segments are the text, and that cuts change nothing.
func fuzzCodes(f *testing.F, set *Set) {
	f.Helper()
	for n, e := range codeExamples() {
		text, _, _ := e.parse()
		f.Add(text, uint16(n), uint16(7*n))
	}
	for n, text := range noCodes() {
		f.Add(text, uint16(n), uint16(3*n))
	}
	for _, text := range []string{
		"加微信：li hua_88，V：x", "q iao@163. com 艾特 qq 点com", "password: \"a'b\"", "jdbc:mysql://h?user=r&password=Pw1234", "redis://:P@ss w0rd@10.0.0.1:6379/0", "密码改成“Abc@12345”，口令是",
		"- name: KEY_TOKEN\n  value: x1y2z3", "curl -u a:b1c2d3 -pRoot2024Pw", "2 40e::1 fe80::1%eth0 117.136.8.2 23，", "T Cc2Ud2kaypdV52LMK3JoEs2k6FERQnBua 钱包", "eyJhbGciOiJIUzI1NiJ9。eyJzdWIiOiIxMjM0.x",
	} {
		f.Add(text, uint16(5), uint16(9))
	}
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		checkFindings(t, text, set.Find(text))
		var rebuilt strings.Builder
		set.Each(text, func(s Segment) { rebuilt.WriteString(s.Text) })
		if rebuilt.String() != text {
			t.Fatal("the segments are not the text")
		}
		if text == "" {
			return
		}
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		if got, want := scanPieces(set, text[:i], text[i:j], text[j:]), scanPieces(set, text); got != want {
			t.Fatalf("cuts at %d and %d: %s\nwant %s", i, j, got, want)
		}
	})
}

func FuzzPeople(f *testing.F) {
	fuzzCodes(f, New(ResidentID, ForeignPermit, Passport, TravelPermit, HongKongID, MacauID, TaiwanID, OfficerID, SocialSecurity, MedicalRecord))
}

func FuzzPhones(f *testing.F) { fuzzCodes(f, New(Mobile, Landline, IMEI, ICCID, IMSI, MAC)) }

func FuzzMoney(f *testing.F) {
	fuzzCodes(f, New(BankCard, BankAccount, USCC, BusinessLicence, UtilityAccount, Ticket, Order, Parcel))
}

func FuzzCourts(f *testing.F) { fuzzCodes(f, New(CourtCase, Document, BirthDate, Age, Company)) }

func FuzzAccounts(f *testing.F) { fuzzCodes(f, New(WeChat, QQ, Email)) }

func FuzzSecrets(f *testing.F) { fuzzCodes(f, New(Secret)) }

func FuzzNetworks(f *testing.F) { fuzzCodes(f, New(IPv4, IPv6, MAC, Crypto)) }

func FuzzPlaces(f *testing.F) { fuzzCodes(f, New(Coordinates, Plate, VIN)) }
