package prefix

import (
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/native/exec"
)

const full = exec.PagePositions

// words returns n tokens that no other kind begins with.
func words(kind, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(kind*1_000_000 + i)
	}
	return out
}

// insert computes tokens and leaves their full pages in the tree.
func insert(t testing.TB, tree *Tree, id NamespaceID, tokens []int32) {
	t.Helper()
	c, _, _ := tree.Match(id, tokens)
	compute(t, id, tokens, c)
	tree.Insert(id, tokens, c)
	c.Release()
	check(t, tree)
}

// known is how many of tokens a look-up finds, all of them as they should be.
func known(t testing.TB, tree *Tree, id NamespaceID, tokens []int32) int {
	t.Helper()
	before, told := tree.Stats(), tree.MatchLength(id, tokens)
	if after := tree.Stats(); after != before {
		t.Errorf("asking what is known counts as %+v", after)
	}
	c, n, _ := tree.Match(id, tokens)
	defer c.Release()
	if told > n || told < n && before.Spilled == 0 { // what lies in the spill file may come on top
		t.Errorf("%d tokens are said to be known, and %d found", told, n)
	}
	verify(t, id, tokens[:n], c)
	check(t, tree)
	return n
}

func TestMatchFindsTheLongestBeginning(t *testing.T) {
	pages := newPages()
	tree := New(Config{}, pages)
	id := NamespaceID{1}
	a := words(1, 3*full+10)
	insert(t, tree, id, a)
	other := slices.Concat(a[:full+20], words(2, 3*full))
	insert(t, tree, id, other)
	if pages.InUse() != 3+3 {
		t.Fatalf("%d pages: the first one is not shared, or parts are kept", pages.InUse())
	}
	for _, c := range []struct {
		name   string
		tokens []int32
		want   int
	}{
		{"nothing", nil, 0},
		{"one token", a[:1], 0},
		{"two tokens", a[:2], 1},
		{"less than a page", a[:full-1], full - 2},
		{"a page", a[:full], full - 1},
		{"a page and a token", a[:full+1], full},
		{"two pages", a[:2*full], 2*full - 1},
		{"two pages and more", a[:2*full+1], 2 * full},
		{"all of what is there", a[:3*full], 3*full - 1},
		{"what it was", a, 3 * full},
		{"longer", append(slices.Clone(a), 1, 2, 3), 3 * full},
		{"the other branch", other[:2*full], 2*full - 1},
		{"where they part", slices.Concat(a[:full+20], words(3, 90)), full + 20},
		{"a bit of one branch", slices.Concat(a[:full+30], words(3, 90)), full + 30},
		{"another beginning", words(4, 100), 0},
	} {
		if got := known(t, tree, id, c.tokens); got != c.want {
			t.Errorf("%s: %d tokens found, not %d", c.name, got, c.want)
		}
	}
	st := tree.Stats()
	if st.Lookups != 17 || st.Hits != 13 || st.Inserted != 6 || st.TailTokens == 0 || st.HitTokens <= st.TailTokens {
		t.Errorf("%+v", st)
	}
	tree.Clear()
	if pages.InUse() != 0 {
		t.Error("pages were not given back")
	}
}

// What a sequence writes behind a page that it found in part is seen by nobody else.
func TestTailIsCopied(t *testing.T) {
	pages := newPages()
	tree := New(Config{}, pages)
	id := NamespaceID{1}
	a := words(1, full)
	insert(t, tree, id, a)
	b := slices.Concat(a[:10], words(2, full))
	c, n, _ := tree.Match(id, b)
	if n != 10 || pages.InUse() != 1 || c.MissingPages(1) != 1 {
		t.Fatalf("%d tokens, %d pages, %d lacking", n, pages.InUse(), c.MissingPages(1))
	}
	compute(t, id, b, c)
	verify(t, id, b, c)
	if n := known(t, tree, id, append(slices.Clone(a), 1)); n != full {
		t.Errorf("%d tokens found", n)
	}
	c.Release()
}

func TestNamespacesAreApart(t *testing.T) {
	key := []byte("a key")
	base := Scope{Tenant: "a", Adapter: "b", Model: "c", Precision: "d"}
	all := map[NamespaceID]Scope{}
	for _, s := range []Scope{
		base,
		{Tenant: "x", Adapter: "b", Model: "c", Precision: "d"},
		{Tenant: "a", Adapter: "x", Model: "c", Precision: "d"},
		{Tenant: "a", Adapter: "b", Model: "x", Precision: "d"},
		{Tenant: "a", Adapter: "b", Model: "c", Precision: "x"},
		{Tenant: "a", Adapter: "b", Model: "c", Precision: "d", Shared: true},
		{Tenant: "ab", Model: "c", Precision: "d"},
		{Adapter: "ab", Model: "c", Precision: "d"},
		{Tenant: "a", Adapter: "bc", Precision: "d"},
		{Tenant: "a\x00b", Model: "c", Precision: "d"},
		{},
	} {
		id := Namespace(key, s)
		if other, ok := all[id]; ok {
			t.Errorf("%+v and %+v share a namespace", s, other)
		}
		all[id] = s
	}
	if Namespace([]byte("another key"), base) == Namespace(key, base) {
		t.Error("the key does not matter")
	}
	tree := New(Config{}, newPages())
	tokens := words(1, 3*full)
	insert(t, tree, Namespace(key, base), tokens)
	for id := range all {
		want := 0
		if id == Namespace(key, base) {
			want = 3*full - 1
		}
		if got := known(t, tree, id, tokens); got != want {
			t.Errorf("%+v: %d tokens found, not %d", all[id], got, want)
		}
	}
	// By policy two tenants use one namespace.
	insert(t, tree, Namespace(key, Scope{Tenant: "handbook", Shared: true}), tokens)
	shared, tenant := Namespace(key, Scope{Tenant: "handbook", Shared: true}), Namespace(key, Scope{Tenant: "handbook"})
	if known(t, tree, shared, tokens) != 3*full-1 || known(t, tree, tenant, tokens) != 0 {
		t.Error("a shared namespace is not shared, or a tenant of its name gets in")
	}
	tree.Forget(Namespace(key, base))
	if known(t, tree, Namespace(key, base), tokens) != 0 || tree.Stats().Namespaces != 1 {
		t.Error("a namespace was not forgotten")
	}
	defer func() {
		if recover() == nil {
			t.Error("a namespace without a key")
		}
	}()
	Namespace(nil, base)
}

func TestEvictionTakesTheLeastRecentlyUsed(t *testing.T) {
	pages := newPages()
	tree := New(Config{}, pages)
	id := NamespaceID{1}
	a, b, c := words(1, 2*full+1), words(2, 2*full+1), words(3, 2*full+1)
	for _, x := range [][]int32{a, b, c} {
		insert(t, tree, id, x)
	}
	known(t, tree, id, a)
	held, n, _ := tree.Match(id, b[:full+1])
	if n != full {
		t.Fatalf("%d tokens", n)
	}
	if got := tree.Evict(3); got != 3 { // both of c and the second page of b, which nobody looked at again
		t.Fatalf("%d pages evicted", got)
	}
	for _, x := range []struct {
		tokens []int32
		want   int
	}{{a, 2 * full}, {b, full}, {c, 0}} {
		if got := known(t, tree, id, x.tokens); got != x.want {
			t.Errorf("%d: %d tokens found, not %d", x.tokens[0], got, x.want)
		}
	}
	if got := tree.Evict(100); got != 2 || pages.InUse() != 1 {
		t.Errorf("%d pages evicted, %d in use: what is held stays, all else goes", got, pages.InUse())
	}
	verify(t, id, b, held)
	held.Release()
	if got := tree.Evict(100); got != 1 || pages.InUse() != 0 || tree.Stats().Evicted != 6 {
		t.Errorf("%d pages evicted, %d in use", got, pages.InUse())
	}
}

func TestQuota(t *testing.T) {
	tree := New(Config{Pages: 10, Quota: 4}, newPages())
	mine, theirs := NamespaceID{1}, NamespaceID{2}
	insert(t, tree, theirs, words(9, 3*full+1))
	for kind := range 20 {
		insert(t, tree, mine, words(kind, 2*full+1))
	}
	if got := known(t, tree, theirs, words(9, 3*full+1)); got != 3*full {
		t.Errorf("%d tokens of another tenant are left, not %d", got, 3*full)
	}
	if st := tree.Stats(); st.Pages != 7 || known(t, tree, mine, words(19, 2*full+1)) != 2*full || known(t, tree, mine, words(18, 2*full+1)) != 2*full {
		t.Errorf("%+v: the last prompts are not there", st)
	}
	insert(t, tree, mine, words(30, 9*full+1)) // more than the quota, and more than is left in all: its beginning stays
	if got := known(t, tree, mine, words(30, 9*full+1)); got != 4*full {
		t.Errorf("%d tokens of a prompt above the quota", got)
	}
	if st := tree.Stats(); st.Refused != 5 || known(t, tree, theirs, words(9, 3*full+1)) != 3*full {
		t.Errorf("%+v: a prompt above the quota pushes out those of others", st)
	}
}

// A prompt that grows while its beginning is the only thing that could be evicted must not lose what it is attached to.
func TestInsertKeepsWhatItGrowsOn(t *testing.T) {
	tree := New(Config{Pages: 2}, newPages())
	id := NamespaceID{1}
	insert(t, tree, id, words(1, full))
	insert(t, tree, id, words(1, 2*full))
	insert(t, tree, id, words(1, 5*full))
	if got := known(t, tree, id, words(1, 5*full)); got != 2*full {
		t.Errorf("%d tokens", got)
	}
	// The same, of a sequence that computed everything itself: the pages of the tree are not held by it.
	tree.Clear()
	insert(t, tree, id, words(1, full))
	c := tree.pages.NewCache()
	compute(t, id, words(1, 5*full), c)
	tree.Insert(id, words(1, 5*full), c)
	check(t, tree)
	c.Release()
	if got := known(t, tree, id, words(1, 5*full)); got != 2*full {
		t.Errorf("%d tokens", got)
	}
}

func TestPagesAreClearBeforeOthersGetThem(t *testing.T) {
	pages := newPages()
	pages.SetLimit(4)
	tree := New(Config{}, pages)
	insert(t, tree, NamespaceID{1}, words(1, 4*full))
	if pages.Take() != nil {
		t.Fatal("a page is free")
	}
	tree.Evict(4)
	for range 4 {
		if pg := pages.Take(); slices.Max(pg.Memory()) != 0 {
			t.Error("an evicted page holds what was computed")
		}
	}
}

// insertQuickly is learn without content.
func insertQuickly(tree *Tree, pages *exec.Pages, id NamespaceID, tokens []int32) {
	c := pages.NewCache()
	c.Reserve(len(tokens))
	c.Advance(len(tokens))
	tree.Insert(id, tokens, c)
	c.Release()
}

// The benchmarks use small pages: what they measure is the tree, with 64 pages for each of 100 prompts.
func BenchmarkMatch(b *testing.B) {
	pages := newPages()
	tree, id := New(Config{}, pages), NamespaceID{1}
	var prompts [][]int32
	for kind := range 100 {
		prompts = append(prompts, words(kind, 4096))
		insertQuickly(tree, pages, id, prompts[kind])
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		c, n, _ := tree.Match(id, prompts[i%len(prompts)])
		if n != 4095 {
			b.Fatal(n)
		}
		c.Release()
	}
}

func BenchmarkInsert(b *testing.B) {
	for _, bound := range []int{1 << 30, 6400} {
		b.Run(map[bool]string{true: "evicting", false: "known"}[bound == 6400], func(b *testing.B) {
			pages := newPages()
			tree, id := New(Config{Pages: bound}, pages), NamespaceID{1}
			tokens := words(1, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if bound == 6400 {
					tokens[0]++
				}
				insertQuickly(tree, pages, id, tokens)
			}
			if (tree.Stats().Evicted > 0) != (bound == 6400) && b.N > 200 {
				b.Error("not what the benchmark is for")
			}
		})
	}
}
