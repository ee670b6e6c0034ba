package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// parcel finds the numbers of parcels that say whose they are.
func parcel(c *number) (finding.Candidate, text.Verdict) {
	m := finding.Candidate{Kind: finding.Parcel, Start: c.at[0], Form: 0.7}
	switch {
	case c.form("SF9999999999999"), c.form("YT9999999999999"), c.form("JD9999999999999"), c.form("JT9999999999999"):
		m.End = c.end(15)
	case c.form("SF999999999999"):
		m.End = c.end(14)
	case c.form("ZTO999999999999"):
		m.End = c.end(15)
	case c.form("EA999999999CN"):
		m.End = c.end(13)
	default:
		return finding.Candidate{}, text.No
	}
	return c.w.Anchor(m, c.h)
}

// longParcel finds the fifteen digits that one company gives out.
func longParcel(n *number) (finding.Candidate, text.Verdict) {
	if !n.whole(15) || n.digit[0] != '7' || n.digit[1] != '7' || len(n.shape(0, 15)) > 4 {
		return finding.Candidate{}, text.No
	}
	return n.w.Anchor(finding.Candidate{Kind: finding.Parcel, Start: n.at[0], End: n.end(15), Form: 0.7}, n.h)
}

// ticket finds the numbers that systems for tickets give out: a prefix, most often a day, and a sequence.
func ticket(c *number) (finding.Candidate, text.Verdict) {
	if strings.IndexByte("WGHTSIRC", c.digit[0]) < 0 {
		return finding.Candidate{}, text.No
	}
	size := c.firstForm("WO999999999999", "GD20999999999999", "GD209999999999", "HT20999999999999", "TS29999999999", "SR9999999999", "INC99999999", "INC9999999",
		"REQ9999999", "CHG9999999", "RITM9999999", "TASK9999999", "CS9999999")
	if size == 0 || c.lowerCase(size) {
		return finding.Candidate{}, text.No
	}
	return c.w.Anchor(finding.Candidate{Kind: finding.Ticket, Start: c.at[0], End: c.end(size), Form: 0.7}, c.h)
}

// lowerCase reports whether one of the first characters is a small letter.
func (n *number) lowerCase(k int) bool {
	return n.w.Any(n.at[0], n.end(k), func(r rune) bool { return r >= 'a' && r <= 'z' })
}
