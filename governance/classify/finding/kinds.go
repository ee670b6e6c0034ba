package finding

// Kind is the number of a class in the table of types.
type Kind uint8

// The kinds.
const (
	ResidentID Kind = iota
	Mobile
	Landline
	BankCard
	BankAccount
	Email
	IPv4
	IPv6
	MAC
	Plate
	VIN
	USCC
	BusinessLicence
	Passport
	TravelPermit
	ForeignPermit
	HongKongID
	MacauID
	TaiwanID
	OfficerID
	SocialSecurity
	MedicalRecord
	UtilityAccount
	CourtCase
	WeChat
	QQ
	Coordinates
	IMEI
	ICCID
	IMSI
	Crypto
	Secret
	Person
	Address
	Ticket
	Order
	Parcel
	Document
	BirthDate
	Age
	Company
	Count
)

// Kinds is a set of kinds.
type Kinds uint64

// Has reports whether a kind is in the set.
func (b Kinds) Has(k Kind) bool { return b&(1<<k) != 0 }

// Any reports whether one of the kinds is in the set.
func (b Kinds) Any(of Kinds) bool { return b&of != 0 }

// KindsOf returns the set of some kinds.
func KindsOf(of ...Kind) Kinds {
	var b Kinds
	for _, k := range of {
		b |= 1 << k
	}
	return b
}
