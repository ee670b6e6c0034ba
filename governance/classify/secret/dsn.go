package secret

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// dsn finds the password in scheme://user:password@host, from the colon of the scheme on. One blank or line break may be in it, and signs
// that belong into an escape.
func dsn(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if !text.IsAlnum(w.At(i - 1)) {
		return finding.Candidate{}, text.No
	}
	k, v := w.Literal(i, "://")
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	k, v = w.While(k, 64, func(r rune) bool { return text.IsUserinfo(r) && r != ':' })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if r := w.At(k); r != ':' {
		user := i + len("://")
		if r == '@' && w.strong(user, k) && k-user >= 20 {
			return finding.Candidate{Kind: finding.Secret, Start: user, End: k, Form: 0.8}, text.Yes // a key without a password
		}
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	k, v = w.While(k+1, 1, text.IsBlank)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	end, v := w.While(k, maxSecret, text.IsUserinfo)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end-k == maxSecret { // undecided at the limit
		return finding.Candidate{Kind: finding.Secret, Start: k, End: end, Form: 0.5, More: &finding.Run{Kind: finding.Secret, In: text.IsUserinfo}}, text.Yes
	}
	if text.IsBlank(w.At(end)) && w.Any(k, end, text.IsLetter) {
		if end, v = w.While(end+1, maxSecret-(end-k), text.IsUserinfo); v == text.Open {
			return finding.Candidate{}, text.Open
		}
	}
	if r := w.At(end); r != '@' || end == k {
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	host, v := w.While(end+1, 64, func(r rune) bool { return text.IsUserinfo(r) || r == '@' })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	for n := end + 1; n < host; n++ { // the last one counts
		if w.At(n) == '@' {
			end = n
		}
	}
	if w.placeholder(k, end) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: k, End: end, Form: 0.9}, text.Yes
}

// goDSN finds the password in user:password@tcp(host), as drivers of Go have it.
func goDSN(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k, v := w.While(i, 24, func(r rune) bool { return text.IsToken(r) || r == '.' })
	if v == text.Open || w.At(k) != ':' {
		return finding.Candidate{}, text.When(v == text.Open || w.At(k) == text.Unknown, text.Open, text.No)
	}
	end, v := w.While(k+1, 64, text.IsUserinfo)
	if v == text.Open || end < k+5 || w.At(end) != '@' {
		return finding.Candidate{}, text.When(v == text.Open || w.At(end) == text.Unknown, text.Open, text.No)
	}
	for _, net := range []string{"@tcp(", "@unix("} {
		if _, v = w.Literal(end, net); v != text.No {
			return finding.Candidate{Kind: finding.Secret, Start: k + 1, End: end, Form: 0.9}, v
		}
	}
	return finding.Candidate{}, text.No
}

// secretFlag finds the value of -u name:password and of -p glued to it.
func secretFlag(w *Detector, i int) (finding.Candidate, text.Verdict) {
	for _, flag := range []string{"-u ", "--user "} {
		k, v := w.Literal(i, flag)
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if v == text.No {
			continue
		}
		k, _ = w.While(k, 1, func(r rune) bool { return r == '"' || r == '\'' })
		k, v = w.While(k, 48, func(r rune) bool { return isValue(r) && r != ':' })
		if v == text.Open || w.At(k) != ':' {
			return finding.Candidate{}, text.When(v == text.Open || w.At(k) == text.Unknown, text.Open, text.No)
		}
		end, _, v := w.token(k+1, 0, isValue)
		if v == text.Open || end-k < 5 || w.placeholder(k+1, end) || !w.Any(k+1, end, text.IsLetter) || !w.guessless(k+1, end) {
			return finding.Candidate{}, text.When(v == text.Open, text.Open, text.No)
		}
		return finding.Candidate{Kind: finding.Secret, Start: k + 1, End: end, Form: 0.8}, text.Yes
	}
	flag := text.Lower(w.At(i + 1))
	if flag != 'p' && flag != 'a' && flag != 'w' {
		return finding.Candidate{}, text.When(flag == text.Unknown, text.Open, text.No)
	}
	k, v := w.While(i+2, 1, text.IsBlank)
	if v == text.Open || k == i+2 && flag != 'p' {
		return finding.Candidate{}, text.When(v == text.Open, text.Open, text.No)
	}
	quoted, _ := w.While(k, 1, func(r rune) bool { return r == '"' || r == '\'' })
	end, v := w.While(quoted, 64, isValue)
	if v == text.Open || !w.strong(quoted, end) || w.Any(quoted, end, func(r rune) bool { return strings.ContainsRune(":/=.", r) }) {
		return finding.Candidate{}, text.When(v == text.Open, text.Open, text.No)
	}
	return finding.Candidate{Kind: finding.Secret, Start: quoted, End: end, Form: 0.7}, text.Yes
}

// logins are words that a name and a password with a slash between follow.
var logins = []string{"jdbc:oracle:thin:", "sqlplus", "expdp", "impdp", "exp", "imp", "rman"}

// loginNames are names of users that everybody has.
var loginNames = []string{
	"root", "admin", "administrator", "sa", "postgres", "sysadmin", "superuser", "guest", "dba",
}

// loginPair finds the password of name/password@host behind the commands of a database, and of root/password.
func loginPair(w *Detector, i int) (finding.Candidate, text.Verdict) {
	r := text.Lower(w.At(i))
	for _, word := range logins {
		if rune(word[0]) != r {
			continue
		}
		k, v := w.Literal(i, word)
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if v == text.No || word[len(word)-1] != ':' && !text.IsBlank(w.At(k)) {
			continue
		}
		name, _ := w.While(k, 1, text.IsBlank)
		slash, v := w.While(name, 32, func(r rune) bool { return text.IsToken(r) || r == '.' })
		if v == text.Open || w.At(slash) != '/' || slash == name {
			return finding.Candidate{}, text.When(v == text.Open || w.At(slash) == text.Unknown, text.Open, text.No)
		}
		end, v := w.While(slash+1, 64, text.IsUserinfo)
		if v == text.Open || end < slash+5 || w.placeholder(slash+1, end) {
			return finding.Candidate{}, text.When(v == text.Open, text.Open, text.No)
		}
		return finding.Candidate{Kind: finding.Secret, Start: slash + 1, End: end, Form: 0.8}, text.Yes
	}
	return rootPair(w, i)
}

// rootPair finds the password behind root / and the like; it has a sign, a digit and a letter.
func rootPair(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k, v := w.OneOf(i, loginNames)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	k, _ = w.While(k, 1, text.IsBlank)
	if r := w.At(k); r != '/' && r != '|' {
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	k, _ = w.While(k+1, 1, text.IsBlank)
	end, v := w.While(k, 40, isValue)
	if v == text.Open || end < k+6 || w.Any(k, end, func(r rune) bool { return r == '/' || r == '\\' }) {
		return finding.Candidate{}, text.When(v == text.Open, text.Open, text.No)
	}
	if !w.Any(k, end, text.IsLetter) || !w.Any(k, end, func(r rune) bool { return strings.ContainsRune("@#$%^&*!", r) }) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: k, End: end, Form: 0.7}, text.Yes
}
