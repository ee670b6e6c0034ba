package server_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	verb     = regexp.MustCompile(`%[-+#0-9.]*[a-z]`)
)

// TestSentencesHaveBothLanguages holds what callers read: prose inside an error is written in English and in Chinese.
func TestSentencesHaveBothLanguages(t *testing.T) {
	phrases := 0
	for _, f := range sources(t) {
		faults, said := proseFaults(f.tree)
		phrases += said
		for _, fault := range faults {
			t.Errorf("%s: %s", f.path, fault)
		}
	}
	if phrases < 100 {
		t.Errorf("only %d calls of fault.Say found: the walk is broken", phrases)
	}
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
		`fault.Say("must be %d", "须为正数", 5)`:                                                               true,
		`fault.Say("must be positive", "must be positive")`:                                                true,
		`fault.Say("must be positive.", "须为正数。")`:                                                          true,
		`fault.New(fault.CodeInvalidValue, "n", fault.Say("must be positive", "须为正数"))`:                    false,
		`fault.Wrap(fmt.Errorf("look it up: %w", err), fault.CodeNotFound, fault.Say("tenant", "租户"), id)`: false,
		`fault.New(fault.CodeNotAllowed, "policies:write")`:                                                false,
		`func(want fault.Phrase) error { return fault.New(fault.CodeInvalidType, "n", want) }`:             false,
		`fault.Say("%s", "不符合 API 描述（%s）", reason)`:                                                        false,
	} {
		src := "package p\nfunc f(why string, id string, err error) {\n\t_ = " + call + "\n}"
		tree, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if faults, _ := proseFaults(tree); (len(faults) > 0) != found {
			t.Errorf("%s: %q", call, faults)
		}
	}
}

// proseFaults returns what is wrong with the errors that a file makes, and how many phrases it says.
func proseFaults(tree *ast.File) (faults []string, phrases int) {
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
		case "fault.Say":
			phrases++
			if len(args) > 1 {
				faults = append(faults, phraseFaults(args[0], args[1])...)
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

// phraseFaults compares the two languages of a phrase; texts that are not literals were checked where they are written.
func phraseFaults(english, chinese ast.Expr) (faults []string) {
	en, ok1 := plainText(english)
	zh, ok2 := plainText(chinese)
	if !ok1 || !ok2 {
		return nil
	}
	if e, z := verb.FindAllString(en, -1), verb.FindAllString(zh, -1); !slices.Equal(e, z) {
		faults = append(faults, fmt.Sprintf("%q takes %v, its Chinese form takes %v", en, e, z))
	}
	if !strings.ContainsFunc(zh, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
		faults = append(faults, fmt.Sprintf("%q is no Chinese for %q", zh, en))
	}
	if strings.HasSuffix(en, ".") || strings.HasSuffix(zh, "。") {
		faults = append(faults, fmt.Sprintf("%q is a part of a sentence: leave the full stop to the sentence", en))
	}
	return faults
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

// function names what a call calls, as pkg.Name.
func function(call *ast.CallExpr) string {
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
