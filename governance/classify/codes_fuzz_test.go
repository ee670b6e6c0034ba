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

func FuzzPlaces(f *testing.F) { fuzzCodes(f, New(Coordinates, Plate, VIN)) }
