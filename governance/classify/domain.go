package classify

import "strings"

// commonDomains are top-level domains that are put together again where paper broke them.
const commonDomains = " com cn net org edu gov info top vip xyz io "

func isCommonDomain(s string) bool { return strings.Contains(commonDomains, " "+s+" ") }

func inDomain(r rune) bool { return isAlnum(r) || r == '-' }

// domain returns the end of the domain name at i: the longest prefix of at least two labels whose last is a top-level domain. words says
// that a dot is written in words.
func (w *window) domain(i int) (end int, words bool, v verdict) {
	for labels, stop := 1, i+maxEmail; ; labels++ {
		to, v := w.while(i, 64, inDomain)
		if v == open {
			return 0, false, open
		}
		if to == i {
			break
		}
		if isBlank(w.at(to)) { // broken by paper, if the rest goes on as a name does
			rest, v := w.while(to+1, 64, inDomain)
			if v == open {
				return 0, false, open
			}
			switch r := w.at(rest); {
			case rest == to+1:
			case labels > 1 && isCommonDomain(strings.ToLower(w.ascii(i, to)+w.ascii(to+1, rest))):
				to, end = rest, rest
			case (r == '.' || r == '。') && (labels == 1 || !isCommonDomain(strings.ToLower(w.ascii(i, to)))):
				to = rest
			}
		}
		if labels > 1 && w.topLevel(i, to) {
			end = to
		}
		next, v := w.sign(to, '.', dotInBrackets, dotWords)
		if v == open {
			return 0, false, open
		}
		if v == no || to >= stop {
			break
		}
		words = words || next > to+2
		if isBlank(w.at(next)) {
			rest, v := w.while(next+1, 24, inDomain)
			if v == open {
				return 0, false, open
			}
			last := strings.ToLower(w.ascii(next+1, rest))
			if goesOn := w.at(rest) == '.' && end == 0 || isCommonDomain(last) && (end == 0 || last == "cn" && isCommonDomain(strings.ToLower(w.ascii(i, to)))); !goesOn {
				break
			}
			next++
		}
		if w.at(next) == unknown {
			return 0, false, open
		}
		i = next
	}
	return end, words, when(end > 0, yes, no)
}

// provider reports whether cells i to end are the domain of one of the great providers of mail.
func (w *window) provider(i, end int) bool {
	return strings.Contains(" qq.com 163.com 126.com 139.com 189.cn gmail.com outlook.com hotmail.com foxmail.com sina.com sina.cn sohu.com yeah.net icloud.com aliyun.com yahoo.com 188.com ",
		" "+strings.ToLower(w.ascii(i, end))+" ")
}

func (w *window) topLevel(i, end int) bool {
	if end-i < 2 || end-i > 63 {
		return false
	}
	if _, v := w.literal(i, "xn--"); v == yes && end-i > 4 {
		return true
	}
	return end-i <= 24 && !w.any(i, end, func(r rune) bool { return !isLetter(r) }) && !strings.Contains(fileSuffixes, " "+strings.ToLower(w.ascii(i, end))+" ")
}

// fileSuffixes are no top-level domains: logo@2x.png.
const fileSuffixes = " png jpg jpeg gif svg webp css js "
