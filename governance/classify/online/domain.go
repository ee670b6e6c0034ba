package online

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// commonDomains are top-level domains that are put together again where paper broke them.
const commonDomains = " com cn net org edu gov info top vip xyz io "

func isCommonDomain(s string) bool { return strings.Contains(commonDomains, " "+s+" ") }

func inDomain(r rune) bool { return text.IsAlnum(r) || r == '-' }

// domain returns the end of the domain name at i: the longest prefix of at least two labels whose last is a top-level domain. words says
// that a dot is written in words.
func (w *Accounts) domain(i int) (end int, words bool, v text.Verdict) {
	for labels, stop := 1, i+text.MaxRow; ; labels++ {
		to, v := w.While(i, 64, inDomain)
		if v == text.Open {
			return 0, false, text.Open
		}
		if to == i {
			break
		}
		if text.IsBlank(w.At(to)) { // broken by paper, if the rest goes on as a name does
			rest, v := w.While(to+1, 64, inDomain)
			if v == text.Open {
				return 0, false, text.Open
			}
			switch r := w.At(rest); {
			case rest == to+1:
			case labels > 1 && isCommonDomain(strings.ToLower(w.ASCII(i, to)+w.ASCII(to+1, rest))):
				to, end = rest, rest
			case (r == '.' || r == '。') && (labels == 1 || !isCommonDomain(strings.ToLower(w.ASCII(i, to)))):
				to = rest
			}
		}
		if labels > 1 && w.topLevel(i, to) {
			end = to
		}
		next, v := w.sign(to, '.', dotInBrackets, dotWords)
		if v == text.Open {
			return 0, false, text.Open
		}
		if v == text.No || to >= stop {
			break
		}
		words = words || next > to+2
		if text.IsBlank(w.At(next)) {
			rest, v := w.While(next+1, 24, inDomain)
			if v == text.Open {
				return 0, false, text.Open
			}
			last := strings.ToLower(w.ASCII(next+1, rest))
			if goesOn := w.At(rest) == '.' && end == 0 || isCommonDomain(last) && (end == 0 || last == "cn" && isCommonDomain(strings.ToLower(w.ASCII(i, to)))); !goesOn {
				break
			}
			next++
		}
		if w.At(next) == text.Unknown {
			return 0, false, text.Open
		}
		i = next
	}
	return end, words, text.When(end > 0, text.Yes, text.No)
}

// provider reports whether cells i to end are the domain of one of the great providers of mail.
func (w *Accounts) provider(i, end int) bool {
	return strings.Contains(" qq.com 163.com 126.com 139.com 189.cn gmail.com outlook.com hotmail.com foxmail.com sina.com sina.cn sohu.com yeah.net icloud.com aliyun.com yahoo.com 188.com ",
		" "+strings.ToLower(w.ASCII(i, end))+" ")
}

func (w *Accounts) topLevel(i, end int) bool {
	if end-i < 2 || end-i > 63 {
		return false
	}
	if _, v := w.Literal(i, "xn--"); v == text.Yes && end-i > 4 {
		return true
	}
	return end-i <= 24 && !w.Any(i, end, func(r rune) bool { return !text.IsLetter(r) }) && !strings.Contains(fileSuffixes, " "+strings.ToLower(w.ASCII(i, end))+" ")
}

// fileSuffixes are no top-level domains: logo@2x.png.
const fileSuffixes = " png jpg jpeg gif svg webp css js "
