package corpus

import "strings"

// scene is where a value is put: what stands around it decides which of its forms are likely.
type scene struct {
	*random
	family, noise string
	before, after string // of the frame; other placeholders are one blank
}

// value is what a placeholder becomes. Only text is sensitive; pre and post come with it, such as the rest of a connection string
// or the title behind a name.
type value struct{ pre, text, post string }

// nearest returns which of the words stands closest before the value, or else first behind it; "" if none does.
func (s *scene) nearest(words ...string) string {
	before, best, found := strings.ToLower(s.before), -1, ""
	for _, w := range words {
		if i := strings.LastIndex(before, w); i >= 0 && i+len(w) > best {
			best, found = i+len(w), w
		}
	}
	if found != "" {
		return found
	}
	after, best := strings.ToLower(s.after), len(s.after)+1
	for _, w := range words {
		if i := strings.Index(after, w); i >= 0 && i < best {
			best, found = i, w
		}
	}
	return found
}

// near reports whether one of the words stands around the value.
func (s *scene) near(words ...string) bool { return s.nearest(words...) != "" }

// plain reports whether the noise asks for a value without letters and signs of its own.
func (s *scene) plain() bool { return s.noise == "numerals" }

// value makes a value of a class or filler.
func (s *scene) value(class string) value {
	switch class {
	case "api_secret":
		return s.secret()
	case "person":
		return s.person()
	case "address":
		return value{text: s.address()}
	}
	if v := s.identity(class); v != "" {
		return value{text: v}
	}
	if v := s.contact(class); v != "" {
		return value{text: v}
	}
	if v := s.record(class); v != "" {
		return value{text: v}
	}
	return value{text: s.filler(class)}
}

// identity makes numbers of people and companies.
func (s *scene) identity(class string) string {
	switch class {
	case "cn_resident_id":
		return s.residentID()
	case "cn_foreign_permit":
		return s.foreignPermit()
	case "cn_uscc":
		return s.uscc()
	case "cn_business_licence":
		return s.businessLicence()
	case "cn_passport":
		return s.passport()
	case "cn_travel_permit":
		return s.travelPermit()
	case "hk_id":
		return s.hongKongID()
	case "macau_id":
		return s.macauID()
	case "tw_id":
		return s.taiwanID()
	case "cn_officer_id":
		return s.officerID()
	case "cn_social_security":
		return s.socialSecurity()
	case "cn_plate":
		return s.plate()
	case "vin":
		return s.vin()
	}
	return ""
}

// contact makes what reaches people, machines and money.
func (s *scene) contact(class string) string {
	switch class {
	case "cn_mobile":
		return s.mobile()
	case "cn_landline":
		return s.landline()
	case "bank_card":
		return s.bankCard()
	case "bank_account":
		return s.bankAccount()
	case "email":
		return s.email()
	case "ipv4":
		return s.ipv4()
	case "ipv6":
		return s.ipv6()
	case "mac_address":
		return s.mac()
	case "wechat":
		return s.wechat()
	case "qq":
		return s.number(s.in(5, 11))
	case "coordinates":
		return s.coordinates()
	case "imei":
		return s.imei()
	case "iccid":
		return withLuhn("8986" + s.of("00", "01", "02", "03", "04", "06", "07", "09", "11") + s.digits(13))
	case "imsi":
		return "460" + s.of("00", "01", "02", "03", "07", "11", "15") + s.digits(10)
	case "crypto_address":
		return s.cryptoAddress()
	}
	return ""
}

// record makes numbers of files and orders.
func (s *scene) record(class string) string {
	switch class {
	case "medical_record":
		return s.medicalRecord()
	case "utility_account":
		return s.utilityAccount()
	case "court_case":
		return s.courtCase()
	case "ticket_number":
		return s.ticket()
	case "order_number":
		return s.order()
	case "parcel_number":
		return s.parcel()
	case "document_number":
		return s.documentNumber()
	case "birth_date":
		return s.birthDate()
	case "age":
		return s.age()
	case "company":
		return s.company()
	}
	return ""
}
