package profile_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/profile"
)

var update = flag.Bool("update", false, "write docs/engines.md and its Chinese twin anew")

// part is something that a profile may know.
type part struct {
	en, zh string
	known  bool
}

func parts(p *profile.Profile) []part {
	formats := p.Request.JSONSchema.Name != "" || p.Request.Regex.Name != "" || p.Request.Grammar.Name != ""
	return []part{
		{"health", "健康检查", p.Health.Ready.Path != ""},
		{"models", "模型列表", p.Models.Path != ""},
		{"version", "版本", p.Version.Path != ""},
		{"sampling", "采样字段", p.Request.TopK.Name != "" || p.Request.MinP.Name != ""},
		{"formats", "应答格式", formats},
		{"errors", "错误", p.Errors.Shape != ""},
		{"cancel", "取消", p.Cancel.Disconnect != nil || p.Cancel.Path != ""},
		{"drain", "排空", p.Drain.Path != "" || p.Drain.Signal != ""},
		{"metrics", "指标", len(p.Metrics.Map) > 0},
		{"tokenizer", "分词器", p.Tokenizer.From != ""},
		{"adapters", "适配器", p.Request.Adapter.Name != ""},
	}
}

// words are the texts of the page.
type words struct {
	title, intro, head, none, known, unknown, metrics, sources, quirks, ran, notRun, features string
	of                                                                                        func(profile.Text) string
	part                                                                                      func(part) string
}

func english() words {
	return words{
		title: "Engines",
		intro: "Which engines the gateway has a profile for, what each profile rests on, and how well it is known. This page is written from the profiles by a test\n(`go test ./engine/profile -run TestEnginesPage -update`).\n\n" +
			"Grades: E0 named only, or the dialect is assumed; E1 documented by its owner; E2 a simulator of the documented dialect passes the conformance cases; E3 real\nsoftware was run here; E4 on the target hardware. What stands at E2 was never run: nothing of it is shown as working above its grade.\n\n" +
			"Basis: `documented` – documents or code of the owner were read and are named; `family` – a build of, or plug-in for, an engine whose server answers; `assumed` –\nnothing usable was found: no feature of it is believed, unless an operator vouches for it.",
		head: "| profile | engine | kind | basis | grade | known | not known |\n| --- | --- | --- | --- | --- | --- | --- |", none: "–", known: "Claims", unknown: "not known", metrics: "metrics reported",
		sources: "Sources", quirks: "To know", ran: "Run", notRun: "Not run here", features: "claimed features",
		of: func(t profile.Text) string { return t.En }, part: func(p part) string { return p.en },
	}
}

func chinese() words {
	return words{
		title: "引擎",
		intro: "网关为哪些引擎备有档案、各档案的依据以及可信程度。本页由测试根据档案生成\n（`go test ./engine/profile -run TestEnginesPage -update`）。\n\n" +
			"等级：E0 仅被提及，或接口方言仅为假定；E1 有其所有者的文档；E2 按文档制作的模拟器通过符合性用例；E3 真实软件曾在此运行；E4 曾在目标硬件上运行。\n处于 E2 的引擎从未实际运行过：任何内容都不会被显示为高于其等级。\n\n" +
			"依据：`documented` – 查阅过所有者的文档或代码并已注明；`family` – 某引擎的构建版本或插件，由该引擎的服务端应答；`assumed` – 未查到可用资料：\n除非运营者担保，否则不采信其任何特性。",
		head: "| 档案 | 引擎 | 类型 | 依据 | 等级 | 已知 | 未知 |\n| --- | --- | --- | --- | --- | --- | --- |", none: "–", known: "声明", unknown: "未知", metrics: "报告的指标",
		sources: "来源", quirks: "须知", ran: "运行", notRun: "未在此运行", features: "声明的特性",
		of: func(t profile.Text) string { return t.Zh }, part: func(p part) string { return p.zh },
	}
}

// page writes the page.
func page(t *testing.T, s *profile.Set, w words) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n%s\n", w.title, w.intro, w.head)
	var all []*profile.Profile
	for _, name := range s.Names() {
		p, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		var known, unknown []string
		for _, x := range parts(p) {
			if x.known && p.Basis != profile.Assumed {
				known = append(known, w.part(x))
			} else {
				unknown = append(unknown, w.part(x))
			}
		}
		title := strings.Join(append([]string{p.Title}, slices.DeleteFunc(slices.Clone(p.Systems), func(x string) bool { return x == p.Title })...), "; ")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n", p.Name, title, p.Kind, p.Basis, p.Grade(), list(known, w.none), list(unknown, w.none))
	}
	for _, p := range all {
		if p.Basis == profile.Assumed {
			continue
		}
		details(&b, p, w)
	}
	return b.String()
}

func list(of []string, none string) string {
	if len(of) == 0 {
		return none
	}
	return strings.Join(of, ", ")
}

func details(b *strings.Builder, p *profile.Profile, w words) {
	fmt.Fprintf(b, "\n## %s\n\n", p.Title)
	if p.About.En != "" {
		fmt.Fprintf(b, "%s\n\n", w.of(p.About))
	}
	var features, metrics []string
	for _, f := range capability.Features() {
		if p.Claims(f) {
			features = append(features, "`"+string(f)+"`")
		}
	}
	for _, n := range slices.Sorted(maps.Keys(p.Metrics.Map)) {
		metrics = append(metrics, "`"+string(n)+"`")
	}
	fmt.Fprintf(b, "- %s: %s\n- %s: %s\n", w.features, list(features, w.none), w.metrics, list(metrics, w.unknown))
	for _, r := range p.Ran {
		fmt.Fprintf(b, "- %s: %s, %s, %s (`%s`)\n", w.ran, r.Grade, r.Version, r.Date, r.Test)
	}
	if p.NotRun.En != "" {
		fmt.Fprintf(b, "- %s: %s\n", w.notRun, w.of(p.NotRun))
	}
	for _, q := range p.Quirks {
		fmt.Fprintf(b, "- %s: %s\n", w.quirks, w.of(q.Says))
	}
	for _, id := range slices.Sorted(maps.Keys(p.Sources)) {
		x := p.Sources[id]
		fmt.Fprintf(b, "- %s `%s`: <%s> %s(%s)\n", w.sources, id, x.URL, strings.TrimLeft(x.Version+" ", " "), x.Date)
	}
}

// TestEnginesPage: docs/engines.md says what the profiles say, in both languages.
func TestEnginesPage(t *testing.T) {
	s := set(t)
	for name, w := range map[string]words{"engines.md": english(), "engines.zh-CN.md": chinese()} {
		path := filepath.Join("..", "..", "docs", name)
		got := page(t, s, w)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != got {
			t.Errorf("%s is not what the profiles say: go test ./engine/profile -run TestEnginesPage -update (%v)", name, err)
		}
	}
}
