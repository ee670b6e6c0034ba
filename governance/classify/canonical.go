package classify

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/number"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// canonical returns the one form of a value that all its spellings share.
func canonical(k finding.Kind, cells []text.Cell) string {
	var b strings.Builder
	for _, c := range cells {
		switch k {
		case finding.Mobile, finding.Landline, finding.BankCard, finding.BankAccount, finding.QQ, finding.IMEI, finding.ICCID, finding.IMSI, finding.BusinessLicence:
			if digit := text.Misread(c.R); text.IsDigit(c.R) {
				b.WriteRune(c.R)
			} else if digit > 0 {
				b.WriteByte(digit)
			}
		case finding.MedicalRecord, finding.UtilityAccount, finding.SocialSecurity, finding.OfficerID:
			if value := text.Numeral(c.R); value >= 0 {
				b.WriteRune('0' + value)
			} else if text.IsAlnum(c.R) || c.R >= 0x3400 {
				b.WriteRune(text.Upper(c.R))
			}
		case finding.MAC:
			if text.IsHex(c.R) {
				b.WriteRune(text.Lower(c.R))
			}
		case finding.CourtCase, finding.Document:
			if text.IsAlnum(c.R) || text.IsHan(c.R) {
				b.WriteRune(c.R)
			}
		case finding.ResidentID, finding.USCC, finding.Plate, finding.VIN, finding.Passport, finding.TravelPermit, finding.ForeignPermit, finding.HongKongID, finding.MacauID, finding.TaiwanID:
			if text.IsAlnum(c.R) || c.R >= 0x3400 {
				b.WriteRune(text.Upper(c.R))
			}
		case finding.Email, finding.IPv4, finding.IPv6, finding.WeChat:
			b.WriteRune(text.Lower(c.R))
		default:
			b.WriteRune(c.R)
		}
	}
	switch s := b.String(); k {
	case finding.Mobile, finding.Landline:
		return number.National(k, s)
	default:
		return s
	}
}
