package server_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// reasons says which argument after the code is prose: it must be a fault.Phrase, or a Chinese sentence holds English.
var reasons = map[string]int{
	"CodeInvalidType": 1, "CodeInvalidValue": 1, "CodeUnsupported": 1, "CodeInvalidDocument": 1, "CodeInvalidPolicy": 1,
	"CodeInvalidPriceBook": 1, "CodeConflict": 0, "CodeNotFound": 0, "CodeExists": 0, "CodeModelNotCapable": 1,
}

var (
	sentence = regexp.MustCompile(` [a-z]`)
	argument = regexp.MustCompile(`%(?:\[(\d+)\])?[-+#0-9.]*[a-zA-Z]|\$\{(\d+):`)
)

// TestSentencesHaveBothLanguages holds what callers read: prose inside an error is a text of the catalogues. A test of
// internal/message holds that each has both languages.
func TestSentencesHaveBothLanguages(t *testing.T) {
	phrases, texts := 0, catalogue(t)
	for _, f := range sources(t) {
		if f.pkg == "internal/fault" {
			continue // it passes ids on
		}
		faults, said := proseFaults(f.tree, texts)
		phrases += said
		for _, fault := range faults {
			t.Errorf("%s: %s", f.path, fault)
		}
	}
	if phrases < 100 {
		t.Errorf("only %d calls of fault.Say found: the walk is broken", phrases)
	}
}

// TestSentencesAreUsed holds that the code names every id of the catalogues.
func TestSentencesAreUsed(t *testing.T) {
	named := map[string]bool{}
	for _, f := range sources(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				text, _ := plainText(lit)
				named[text] = true
			}
			return true
		})
	}
	for id := range catalogue(t) {
		if !named[id] {
			t.Errorf("internal/message: nobody says %s", id)
		}
	}
}

// chinese lists the files and folders whose Chinese is no sentence for people who choose a language, each with the reason.
var chinese = map[string]string{
	"governance/classify/":      "words, names and titles that the detectors read; a benchmark's documents",
	"governance/mask/":          "tags and marks of pseudonyms, which models read",
	"governance/label/":         "the label of generated content, as its standard writes it",
	"gateway/passages.go":       "a prompt, which models read",
	"engine/tokenizer/":         "patterns of tokenizers",
	"engine/enginetest/":        "prompts of the suite",
	"rag/faq/":                  "words of questions that the match reads",
	"rag/lexical/":              "letters that are no words",
	"rag/ground/":               "numerals, units and words of denial that the check of sentences reads",
	"rag/parse/":                "numerals, dates and headings as Office writes and documents have them",
	"web/web.go":                "a page in both languages",
	"bench/rag/":                "entries of a hotline that are made to be searched",
	"bench/watermark/":          "letters that are made, on which nothing may be found; figures in both languages",
	"audit/evidence/":           "a file in both languages",
	"server/cmd/sluice-verify/": "a report in both languages: the verifier stands alone, without the catalogues",
}

// TestSentencesAreNotInTheCode holds that Chinese stands in the catalogues, or where the list above gives a reason.
func TestSentencesAreNotInTheCode(t *testing.T) {
	reason := map[string]bool{}
	for _, f := range sources(t) {
		var found []string
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && strings.ContainsFunc(lit.Value, isHan) {
				found = append(found, lit.Value)
			}
			return true
		})
		if len(found) == 0 {
			continue
		}
		listed := false
		for prefix := range chinese {
			if strings.HasPrefix(f.path, prefix) {
				listed, reason[prefix] = true, true
			}
		}
		if !listed {
			t.Errorf("%s: %s is Chinese in the code: put it into internal/message", f.path, found[0])
		}
	}
	for prefix := range chinese {
		if !reason[prefix] {
			t.Errorf("%s holds no Chinese: take it off the list", prefix)
		}
	}
}

// words lists what commands print without the catalogues, each with the reason.
var words = map[string]string{
	"%.4g ms":             "a unit",
	"sluice: ":            "the name of the program",
	"problems were found": "nobody reads it: it is exit code 3",
	"profile: %q must be the name of its file": "in the words of the linter of profiles, which is for programmers",
	"%s.%s: a file bears out no more than E1":  "the same",
	"interrupted": "cli.Text says it in both languages",
	"  curl -N %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \\\n" +
		`    -d '{"model":"%s","stream":true,"messages":[{"role":"user","content":"My phone number is 13800138000. What is my phone number?"}]}'` + "\n\n": "a command",
}

// TestCommandsSpeakBothLanguages holds that no command writes a sentence out: what it prints and what it fails with are texts of the
// catalogues. Heads of columns are in capitals; scripts look for them.
func TestCommandsSpeakBothLanguages(t *testing.T) {
	printed, excused := 0, map[string]bool{}
	for _, f := range sources(t) {
		if f.pkg != "server/cmd/sluice" && !strings.HasPrefix(f.pkg, "server/cmd/sluice/") {
			continue
		}
		n, found := plainWords(f.tree)
		printed += n
		for _, text := range found {
			if words[text] == "" {
				t.Errorf("%s: %q is a sentence in the code: put it into internal/message, and say it with Say, cli.Misuse or cli.Failed", f.path, text)
			}
			excused[text] = true
		}
	}
	if printed < 120 {
		t.Errorf("only %d calls that print found: the walk is broken", printed)
	}
	for text := range words {
		if !excused[text] {
			t.Errorf("nobody prints %q: take it off the list", text)
		}
	}
}

// TestPlainWords proves the rule above on what it must and must not find.
func TestPlainWords(t *testing.T) {
	for call, found := range map[string]bool{
		`fmt.Fprintf(w, "revoked %s\n", id)`:                      true,
		`fmt.Fprintln(w, "removed")`:                              true,
		`fmt.Fprintln(w, "  "+id+" was removed")`:                 true,
		`fmt.Fprint(w, fmt.Sprintf("%d running", n))`:             true,
		`fmt.Fprint(w, "one", "ok then")`:                         true,
		`errors.New("want --role")`:                               true,
		`fmt.Errorf("%s is empty", path)`:                         true,
		`fmt.Errorf("%w; see --help", err)`:                       true,
		`fmt.Errorf("--key: %w", err)`:                            true,
		`io.WriteString(w, "all is well")`:                        true,
		`fmt.Fprintln(w, a.Say("cli.key_revoke.done", id))`:       false,
		`fmt.Fprintln(w, "ID\tNAME\tLAST SIGN-IN\tREQUESTS/MIN")`: false,
		`fmt.Fprintf(w, "%s\t%d%%\t%v [%d:%d]\n", a, b, c, d, e)`: false,
		`fmt.Errorf("read password: %w", err)`:                    false,
		`fmt.Errorf("%s: %w", name, err)`:                         false,
	} {
		tree, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\nfunc f() {\n\t_ = "+call+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, texts := plainWords(tree); n == 0 || (len(texts) > 0) != found {
			t.Errorf("%s: %d calls, %q", call, n, texts)
		}
	}
}

var (
	lowerWord = regexp.MustCompile(`[a-z]{2,}`)
	verbs     = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z%]`)
	step      = regexp.MustCompile(`^([a-z ]+|%s): %w$`) // of what was done when the cause arose
)

// plainWords returns how many calls of a file print or make an error, and their texts that hold a word and are written out.
func plainWords(tree *ast.File) (calls int, texts []string) {
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		args := call.Args
		switch function(call) {
		case "fmt.Fprint", "fmt.Fprintln", "io.WriteString":
			args = args[1:]
		case "fmt.Fprintf":
			args = args[1:2]
		case "errors.New", "fmt.Sprintf":
			args = args[:1]
		case "fmt.Errorf":
			if text, _ := plainText(args[0]); step.MatchString(text) {
				calls++
				return true
			}
			args = args[:1]
		default:
			return true
		}
		calls++
		for _, arg := range args {
			if text, ok := plainText(arg); ok && lowerWord.MatchString(verbs.ReplaceAllString(text, "")) {
				texts = append(texts, text)
			}
		}
		return true
	})
	return calls, texts
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

// catalogue returns how many arguments each text of the English catalogue takes.
func catalogue(t *testing.T) map[string]int {
	t.Helper()
	file, err := os.ReadFile("../internal/message/en.txt")
	if err != nil {
		t.Fatal(err)
	}
	texts, id, next := map[string]int{}, "", 0
	for line := range strings.Lines(string(file)) {
		if name, text, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "\t") {
			id, line, texts[name], next = name, text, 0, 0
		}
		for _, m := range argument.FindAllStringSubmatch(line, -1) {
			if index := m[1] + m[2]; index != "" {
				next, _ = strconv.Atoi(index)
			} else {
				next++
			}
			texts[id] = max(texts[id], next)
		}
	}
	if len(texts) < 100 {
		t.Fatalf("only %d texts found: the catalogue is read in a wrong way", len(texts))
	}
	return texts
}

// TestProseFaults proves the rule above on what it must and must not find.
func TestProseFaults(t *testing.T) {
	for call, found := range map[string]bool{
		`fault.New(fault.CodeInvalidValue, "n", "must be positive")`:                                       true,
		`fault.New(fault.CodeInvalidValue, "n", "positive")`:                                               true,
		`fault.New(fault.CodeInvalidValue, "n", fmt.Sprintf("below %d", 5))`:                               true,
		`fault.New(fault.CodeConflict, "over: "+phase)`:                                                    true,
		`fault.New(fault.CodeConflict, why)`:                                                               true,
		`func() error { return fault.New(fault.CodeConflict, why) }`:                                       true,
		`func(want string) error { return fault.New(fault.CodeInvalidType, "n", want) }`:                   true,
		`fault.Wrap(err, fault.CodeInvalidDocument, name, err.Error())`:                                    true,
		`fault.Wrap(err, fault.CodeNotFound, "tenant", id)`:                                                true,
		`fault.New(fault.CodeNotAllowed, "the consent of two")`:                                            true,
		`fault.Say("must be positive", "须为正数")`:                                                            true,
		`fault.Say("must_be_positive")`:                                                                    true,
		`fault.Say("value." + why)`:                                                                        true,
		`fault.Say(message.ID(why))`:                                                                       true,
		`fault.Say("value.below")`:                                                                         true,
		`fault.Say("value.below", 5, 6)`:                                                                   true,
		`fault.Quote("must be positive", "须为正数")`:                                                          true,
		`fault.Quote(why, why)`:                                                                            false,
		`func(id message.ID) string { return message.Both(id, " / ") }`:                                    false,
		`cli.Both("thing.tenant")`:                                                                         false,
		`cli.Both("value.above")`:                                                                          true,
		`cli.Misuse("value.below")`:                                                                        true,
		`cli.Failed("value.below", err)`:                                                                   false,
		`fault.Say("value.below", list...)`:                                                                false,
		`fault.New(fault.CodeInvalidValue, "n", fault.Say("value.below", 5))`:                              false,
		`fault.Wrap(fmt.Errorf("look it up: %w", err), fault.CodeNotFound, fault.Say("thing.tenant"), id)`: false,
		`fault.New(fault.CodeNotAllowed, "policies:write")`:                                                false,
		`func(want fault.Phrase) error { return fault.New(fault.CodeInvalidType, "n", want) }`:             false,
	} {
		src := "package p\nfunc f(why string, id string, err error) {\n\t_ = " + call + "\n}"
		tree, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if faults, _ := proseFaults(tree, map[string]int{"value.below": 1, "thing.tenant": 0}); (len(faults) > 0) != found {
			t.Errorf("%s: %q", call, faults)
		}
	}
}

// proseFaults returns what is wrong with the errors that a file makes, and how many phrases it says. texts are the ids of the
// catalogues with the number of their arguments.
func proseFaults(tree *ast.File, texts map[string]int) (faults []string, phrases int) {
	var stack []ast.Node
	ast.Inspect(tree, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		args := call.Args
		switch function(call) {
		case "fault.Say", "message.Say", "message.Both", "cli.Both", "a.Say", "cli.Misuse", "cli.Failed", "Misuse", "Failed":
			phrases++
			faults = append(faults, phraseFaults(call, texts)...)
			return true
		case "fault.Quote", "message.Quote":
			if text, ok := plainText(args[0]); ok {
				faults = append(faults, fmt.Sprintf("fault.Quote takes texts of others, not %q: use fault.Say", text))
			}
			return true
		case "fault.Wrap":
			args = args[1:] // the cause is for the log
		case "fault.New":
		default:
			return true
		}
		if len(args) == 0 {
			return true
		}
		code, ok := args[0].(*ast.SelectorExpr)
		if !ok {
			return true
		}
		for i, arg := range args[1:] {
			where, prose := reasons[code.Sel.Name]
			text, plain := plainText(arg)
			switch {
			case plain && (sentence.MatchString(text) || prose && where == i):
				faults = append(faults, fmt.Sprintf("%s takes %q, which a Chinese caller reads in English: use fault.Say", code.Sel.Name, text))
			case prose && where == i && unspoken(arg, stack):
				faults = append(faults, code.Sel.Name+" takes a reason of type string: take a fault.Phrase, so that it has both languages")
			}
		}
		return true
	})
	return faults, phrases
}

// phraseFaults compares a phrase with its text in the catalogue.
func phraseFaults(call *ast.CallExpr, texts map[string]int) []string {
	lit, ok := call.Args[0].(*ast.BasicLit)
	if name, passed := call.Args[0].(*ast.Ident); passed && name.Name == "id" {
		return nil // a helper passes on what its caller wrote out
	}
	if !ok {
		return []string{"fault.Say takes an id that is written out"}
	}
	id, _ := plainText(lit)
	given := len(call.Args) - 1
	if function(call) == "message.Both" {
		given-- // what stands between the languages
	}
	switch takes, ok := texts[id]; {
	case !ok:
		return []string{fmt.Sprintf("%q is no id of internal/message", id)}
	case call.Ellipsis == token.NoPos && takes != given:
		return []string{fmt.Sprintf("%q takes %d arguments, not %d", id, takes, given)}
	}
	return nil
}

// plainText returns the text that an expression spells out: a literal, a sum that begins or ends with one, a format.
func plainText(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.ParenExpr:
		return plainText(e.X)
	case *ast.BinaryExpr:
		left, ok1 := plainText(e.X)
		right, ok2 := plainText(e.Y)
		return left + right, ok1 || ok2
	case *ast.CallExpr:
		if strings.HasPrefix(function(e), "fmt.Sprint") && len(e.Args) > 0 {
			return plainText(e.Args[0])
		}
	}
	return "", false
}

// unspoken reports whether e is a string for sure: another error's text, or a string parameter of a function around it.
func unspoken(e ast.Expr, around []ast.Node) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "Error" || sel.Sel.Name == "Message")
	case *ast.Ident:
		return slices.ContainsFunc(around, func(n ast.Node) bool {
			var params *ast.FieldList
			switch fn := n.(type) {
			case *ast.FuncDecl:
				params = fn.Type.Params
			case *ast.FuncLit:
				params = fn.Type.Params
			default:
				return false
			}
			return slices.ContainsFunc(params.List, func(p *ast.Field) bool {
				kind, ok := p.Type.(*ast.Ident)
				return ok && kind.Name == "string" && slices.ContainsFunc(p.Names, func(id *ast.Ident) bool { return id.Name == e.Name })
			})
		})
	}
	return false
}

// function names what a call calls, as pkg.Name or, in its own package, Name.
func function(call *ast.CallExpr) string {
	if name, ok := call.Fun.(*ast.Ident); ok {
		return name.Name
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + sel.Sel.Name
}
