package rag

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// question is asked of the corpus; the document answers it.
type question struct{ text, document string }

// corpus returns 1,000 documents of a city's hotline, half Chinese, half English: matters × places, each with details of its own,
// and a question for each, worded differently, with at least one word of its matter: the hashing embedder knows wording, not
// meaning. Documents of every second place carry the label "inner". It is the same in every run.
func corpus() (docs []Document, questions []question) {
	rng := rand.New(rand.NewPCG(12345, 1))
	zhMatters := [][3]string{ // the matter, how people ask, what is needed
		{"户口迁移", "想把户口迁走要准备什么", "身份证、户口簿和迁入地准迁证明"},
		{"医保异地报销", "外地住院的费用怎么报", "社保卡、出院小结和费用清单"},
		{"新生儿出生登记", "宝宝刚出生去哪上户", "出生医学证明和父母结婚证"},
		{"公租房申请", "没有房子怎么申请公租房", "收入证明和无房证明"},
		{"残疾证换领", "残疾证到期了怎么换", "旧证和两寸照片"},
		{"老年卡办理", "老年人乘车的卡去哪办", "身份证和一寸照片"},
		{"停车位纠纷投诉", "小区车位被占找谁投诉", "车位合同和现场照片"},
		{"施工噪音举报", "夜里工地太吵怎么举报", "时间、地点和录音"},
		{"营业执照变更", "店铺改名执照怎么变更", "变更登记申请书和原执照"},
		{"失业金申领", "失业了怎么领补助", "解除劳动关系证明和银行卡"},
	}
	zhPlaces := strings.Fields("朝阳街道 海淀街道 丰台街道 石景街道 通州街道 顺义街道 昌平街道 大兴街道 怀柔街道 平谷街道 密云街道 延庆街道 " +
		"东城街道 西城街道 滨江街道 萧山街道 余杭街道 临安街道 富阳街道 桐庐街道 淳安街道 建德街道 钱塘街道 拱墅街道 上城街道 " +
		"南山街道 福田街道 罗湖街道 宝安街道 龙岗街道 盐田街道 光明街道 坪山街道 龙华街道 大鹏街道 越秀街道 荔湾街道 天河街道 " +
		"白云街道 黄埔街道 番禺街道 花都街道 南沙街道 从化街道 增城街道 武昌街道 汉阳街道 江夏街道 蔡甸街道 新洲街道")
	enMatters := [][3]string{
		{"parking permit renewal", "how do I renew the permit for my car", "the vehicle registration and proof of address"},
		{"birth certificate copies", "I lost my child's birth certificate", "a parent's identity card and the fee"},
		{"noise complaints", "whom do I call about noise at night", "the time, the place and a recording"},
		{"waste collection", "when are the bins emptied", "the street and house number"},
		{"business licence changes", "changing the name of my shop", "the signed form and the old licence"},
		{"library membership", "how can I join the library", "an identity card and a photograph"},
		{"school enrolment", "registering my daughter for primary school", "the vaccination record and proof of address"},
		{"tree protection", "may I cut down a tree in my garden", "a site plan and photographs"},
		{"unemployment benefit", "I lost my job and need support", "the dismissal letter and bank details"},
		{"water bill disputes", "my water bill is far too high", "the last three bills and the meter reading"},
	}
	enPlaces := strings.Fields("Ashford Barnham Calder Denby Eastwick Fenton Garside Halwell Ilkeston Jarrow Kelby Lanark Marley Norwell Oakham " +
		"Penrith Quarley Radford Selby Tarrant Upton Velden Wexham Yarrow Zelah Aldgate Bexhill Corwen Dunmore Elstow Frimley Gorleston Hendon " +
		"Inkberrow Juniper Kirkby Ludlow Morpeth Newlyn Ormskirk Pickering Quinton Rothbury Sandown Thirsk Ulverston Ventnor Whitby Yeovil Zennor")
	add := func(place int, name, body, q string) {
		d := Document{Tenant: "acme", Collection: "hotline", Name: name, Body: []byte(body)}
		if place%2 == 1 {
			d.Labels = []string{"inner"}
		}
		docs = append(docs, d)
		questions = append(questions, question{q, name})
	}
	for i, p := range zhPlaces {
		for j, m := range zhMatters {
			add(i, fmt.Sprintf("zh-%d-%d.md", i, j), fmt.Sprintf(
				"# %s%s指南\n\n## 办理条件\n\n%s居民可以申请%s，需要携带%s。\n\n## 办理地点\n\n%s便民中心%d号窗口，咨询电话%d，工作日上午九点到下午五点。\n\n## 说明\n\n材料不齐的，窗口一次性告知。办理编号以ZH%d开头。",
				p, m[0], p, m[0], m[2], p, 1+rng.IntN(40), 60_000_000+rng.IntN(9_999_999), 1000+i*10+j), p+"，"+m[1])
		}
	}
	for i, p := range enPlaces {
		for j, m := range enMatters {
			add(i, fmt.Sprintf("en-%d-%d.html", i, j), fmt.Sprintf(
				"<title>%s in %s</title><h1>%s in %s</h1><p>Residents of %s bring %s.</p><h2>Where</h2><p>%s service centre, desk %d, phone %d, weekdays from nine to five.</p><p hidden>ignore</p>",
				m[0], p, m[0], p, p, m[2], p, 1+rng.IntN(40), 5_550_000+rng.IntN(9999)), m[1]+" in "+p)
		}
	}
	return docs, questions
}

// TestThousandDocuments holds recall on a corpus in which every matter exists in fifty places, that labels hide half of it, and that
// a restart changes nothing; it shows the times. The embedder hashes wording: TestRealModel has a real one and a part of the corpus.
func TestThousandDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector")
	}
	db := dbtest.SQLite(t) // the order of answers does not come from the tables
	s := service(t, db, newHashed())
	create(t, s, "acme", "hotline")
	docs, questions := corpus()
	start := time.Now()
	inner := map[string]bool{}
	for _, d := range docs {
		if _, err := s.Ingest(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		inner[d.Name] = d.Labels != nil
	}
	t.Logf("%d documents in %s", len(docs), time.Since(start))
	if len(docs) != 1000 {
		t.Errorf("%d documents", len(docs))
	}
	asked := slices.Collect(every(4, questions))
	all := ask(t, s, asked, "inner")
	all.want(t, "everything", 250, 0.98, 0.93)

	var open []question
	for _, q := range asked {
		if !inner[q.document] {
			open = append(open, q)
		}
	}
	outside := ask(t, s, open)
	outside.want(t, "the open half", 120, 0.98, 0.93)
	for _, p := range slices.Concat(outside.found...) {
		if inner[p.Document] {
			t.Fatalf("LEAK: %s was found without its label", p.Document)
		}
	}

	start = time.Now()
	s = service(t, db, newHashed()) // as after a restart
	t.Logf("loaded in %s", time.Since(start))
	if again := ask(t, s, asked, "inner"); !reflect.DeepEqual(all.found, again.found) {
		t.Error("after a restart the same questions find something else")
	}
}

// TestRealModel has the model that the product ships: 80 documents of the corpus, their questions, and questions that share no word
// with the document that answers them.
func TestRealModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector")
	}
	s := service(t, dbtest.SQLite(t), e5(t))
	create(t, s, "acme", "hotline")
	docs, questions := corpus()
	var zh, en []question
	start, n := time.Now(), 0
	for i, d := range docs {
		chinese := strings.HasPrefix(d.Name, "zh")
		if place := i / 10; place%10 != 0 || chinese && place%20 != 0 {
			continue
		}
		if _, err := s.Ingest(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		n++
		if chinese {
			zh = append(zh, questions[i])
		} else {
			en = append(en, questions[i])
		}
	}
	t.Logf("%d documents in %s", n, time.Since(start))
	ask(t, s, zh).want(t, "Chinese", 30, 1, 0.98)
	ask(t, s, en).want(t, "English", 50, 0.98, 0.94)
	// BM25 alone puts none of these first.
	ask(t, s, []question{
		{"Ashford garbage pickup", "en-0-3.html"},
		{"Ashford: my neighbours play loud music", "en-0-2.html"},
		{"Ashford, permission to fell an oak", "en-0-7.html"},
		{"Upton: borrowing books and novels", "en-20-5.html"},
		{"Upton: fired by my employer, financial help", "en-20-8.html"},
		{"Kelby: proof of when my baby was delivered", "en-10-1.html"},
	}).want(t, "only the meaning", 6, 1, 0.6)
}

func every[T any](n int, all []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := 0; i < len(all); i += n {
			if !yield(all[i]) {
				return
			}
		}
	}
}

// answers is what questions found.
type answers struct {
	found       [][]Passage
	took        []time.Duration
	hits, first int // the document that answers is among the first five, is the first
}

func ask(t *testing.T, s *library, questions []question, labels ...string) answers {
	t.Helper()
	var a answers
	for _, q := range questions {
		start := time.Now()
		got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: "hotline", Labels: labels, Text: q.text, TopK: 5})
		a.took = append(a.took, time.Since(start))
		if err != nil {
			t.Fatal(err)
		}
		a.found = append(a.found, got)
		switch i := slices.IndexFunc(got, func(p Passage) bool { return p.Document == q.document }); {
		case i == 0:
			a.first++
			a.hits++
		case i > 0:
			a.hits++
		}
	}
	return a
}

// want checks recall at 5 and at 1.
func (a answers) want(t *testing.T, what string, questions int, at5, at1 float64) {
	t.Helper()
	n := len(a.found)
	took := slices.Sorted(slices.Values(a.took))
	five, one := float64(a.hits)/float64(n), float64(a.first)/float64(n)
	t.Logf("%s: %d questions, recall@5 %.3f, recall@1 %.3f, p50 %s, p95 %s", what, n, five, one, took[n/2], took[n*95/100])
	if n < questions || five < at5 || one < at1 {
		t.Errorf("%s: recall@5 %.3f of %d, want %.2f of %d; recall@1 %.3f, want %.2f", what, five, n, at5, questions, one, at1)
	}
}

// TestNoLeaks asks as random principals of a collection whose documents carry random labels. Nothing is found that the principal
// may not see, nothing that may be seen is crowded out, and what is found does not depend on what is hidden.
func TestNoLeaks(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), newHashed())
	rng := rand.New(rand.NewPCG(77, 1))
	labels := []string{"a", "b", "c", "d", "e", "f"}
	some := func(most int) (out []string) {
		for range rng.IntN(most + 1) {
			out = append(out, labels[rng.IntN(len(labels))])
		}
		return out
	}
	type rule struct{ collection, document []string }
	rules := map[string]rule{}
	collections := map[string][]string{"open": nil, "ab": {"a", "b"}, "c": {"c"}}
	for name, l := range collections {
		create(t, s, "acme", name, l...)
		create(t, s, "globex", name)
		for i := range 60 {
			doc := fmt.Sprintf("%s-%d.txt", name, i)
			own := some(2)
			ingest(t, s, name, doc, fmt.Sprintf("common words and number %d", i), own...)
			rules[doc] = rule{l, own}
		}
		if _, err := s.Ingest(t.Context(), Document{Tenant: "globex", Collection: name, Name: "foreign.txt", Body: []byte("common words")}); err != nil {
			t.Fatal(err)
		}
	}
	meets := func(want, have []string) bool {
		for _, w := range want {
			if slices.Contains(have, w) {
				return true
			}
		}
		return len(want) == 0
	}
	for range 1500 {
		principal := some(3)
		for name, l := range collections {
			got, err := s.Search(t.Context(), Query{Tenant: "acme", Collection: name, Labels: principal, Text: fmt.Sprintf("common number %d", rng.IntN(60)), TopK: 50})
			if !meets(l, principal) {
				if err == nil {
					t.Fatalf("%v may search %s", principal, name)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			visible := 0
			for doc, r := range rules {
				if strings.HasPrefix(doc, name+"-") && meets(r.document, principal) {
					visible++
				}
			}
			if len(got) != min(visible, 50) {
				t.Fatalf("%v sees %d of %d documents", principal, len(got), visible)
			}
			for _, p := range got {
				if r, ok := rules[p.Document]; !ok || !meets(r.collection, principal) || !meets(r.document, principal) {
					t.Fatalf("LEAK: %v found %s with %v", principal, p.Document, r)
				}
			}
		}
	}
}

// TestHiddenDocumentsDoNotCount compares a collection that hides documents with one that never had them: not even a score differs.
func TestHiddenDocumentsDoNotCount(t *testing.T) {
	alone(t)
	s := service(t, dbtest.SQLite(t), newHashed())
	create(t, s, "acme", "whole")
	create(t, s, "acme", "part")
	rng := rand.New(rand.NewPCG(9, 4))
	for i := range 40 {
		name, text := fmt.Sprintf("%d.md", i), randomText(rng)
		if i%3 == 0 {
			ingest(t, s, "whole", name, text, "board")
			continue
		}
		ingest(t, s, "whole", name, text)
		ingest(t, s, "part", name, text)
	}
	key := func(p Passage) string { return fmt.Sprintf("%s#%d %v", p.Document, p.Chunk, p.Score) }
	for range 50 {
		q := "x " + strings.ToValidUTF8(randomText(rng)[:20], "")
		var whole, part []string
		for _, p := range find(t, s, "whole", q, "staff") {
			whole = append(whole, key(p))
		}
		for _, p := range find(t, s, "part", q, "staff") {
			part = append(part, key(p))
		}
		if len(part) == 0 || !slices.Equal(slices.Sorted(slices.Values(whole)), slices.Sorted(slices.Values(part))) {
			t.Fatalf("%q: with hidden documents\n%v\nwithout\n%v", q, whole, part)
		}
	}
}
