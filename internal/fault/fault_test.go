package fault

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"
)

// TestCodesAreComplete reads codes.go itself: every declared code has a kind and a sentence, and no two share a string.
func TestCodesAreComplete(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[Code]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		id, ok := spec.Type.(*ast.Ident)
		if !ok || id.Name != "Code" {
			return true
		}
		s, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if other, dup := declared[Code(s)]; dup {
			t.Errorf("%s and %s share the code %q", other, spec.Names[0].Name, s)
		}
		declared[Code(s)] = spec.Names[0].Name
		return true
	})
	if len(declared) == 0 || len(declared) != len(kinds) {
		t.Errorf("%d codes are declared, %d have a kind", len(declared), len(kinds))
	}
	for c, name := range declared {
		if _, ok := kinds[c]; !ok {
			t.Errorf("%s has no kind", name)
		}
		if text := New(c).Message(English); text == string(c) {
			t.Errorf("%s has no sentence", name)
		}
	}
}

func TestErrorWithoutCodeSaysNothing(t *testing.T) {
	secret := errors.New("dial tcp 10.1.2.3: password hunter2")
	if got := Public(fmt.Errorf("load policy: %w", secret)).Message(English); got != "The server failed to process the request. Give the request id to your administrator." {
		t.Errorf("public sentence = %q", got)
	}
	if KindOf(secret) != Internal {
		t.Error("an error without a code must be Internal")
	}
}

func TestOutermostErrorWins(t *testing.T) {
	inner := New(CodeNotFound, "key", "k1")
	outer := Wrap(fmt.Errorf("look up: %w", inner), CodeInvalidKey)
	got := Public(fmt.Errorf("authenticate: %w", outer))
	if got.Code() != CodeInvalidKey || got.Kind() != Unauthenticated {
		t.Errorf("got %s/%s", got.Code(), got.Kind())
	}
	if !errors.Is(outer, inner) {
		t.Error("the cause must stay reachable")
	}
	if !Is(outer, CodeInvalidKey) || Is(nil, CodeInvalidKey) {
		t.Error("Is must match the outermost code only")
	}
}

func TestWithReturnsCopies(t *testing.T) {
	base := New(CodeMissing, "model")
	p := base.WithParam("model").WithRetryAfter(time.Second)
	if base.Param() != "" || base.RetryAfter() != 0 {
		t.Error("With must not change the receiver")
	}
	if p.Param() != "model" || p.RetryAfter() != time.Second {
		t.Error("With lost a value")
	}
	if got := p.Message(Chinese); got != "缺少必填参数：'model'。" {
		t.Errorf("Chinese sentence = %q", got)
	}
}

func TestPhraseSpeaksTheSentencesLanguage(t *testing.T) {
	e := New(CodeInvalidValue, "top_k", Say("value.whole_range", 1, 50))
	if got := e.Message(English); got != "Invalid value for 'top_k': must lie between 1 and 50." {
		t.Error(got)
	}
	if got := e.Message(Chinese); got != "参数 'top_k' 的值不正确：须在 1 与 50 之间。" {
		t.Error(got)
	}
	nested := New(CodeInvalidPolicy, "rules", Say("governance.on_line", Say("governance.missing"), 3))
	if got := nested.Message(Chinese); got != "策略文档在 'rules' 处不合法：缺失（第 3 行）。" {
		t.Error(got)
	}
	if got := nested.Error(); got != "The policy document is not valid at 'rules': is missing (line 3)." {
		t.Error(got)
	}
	if got := Wrap(errors.New("why"), CodeInvalidValue, "x", Quote("is 100%", "是 100%")).Error(); got != "Invalid value for 'x': is 100%: why" {
		t.Error(got)
	}
}
