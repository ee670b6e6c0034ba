package audit

import (
	"cmp"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/facet"
)

const (
	// fewFacets is how many facets are asked for their newest record before anything else is tried.
	fewFacets = 1000
	// scanWindow is how many records are looked at, newest first, when many facets match: then a page is usually among the newest.
	scanWindow = 4000
	// unionParts keeps one statement within what both databases take.
	unionParts = 50
)

// place is where a record stands in the order of a search.
type place struct {
	Time int64
	ID   string
}

// newest orders places as searches return them.
func newest(a, b place) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.ID, a.ID)) }

// condition is a part of a WHERE clause.
type condition struct {
	sql  string
	args []any
}

func all(conditions ...[]condition) condition {
	var sql []string
	var args []any
	for _, c := range slices.Concat(conditions...) {
		sql, args = append(sql, c.sql), append(args, c.args...)
	}
	if len(sql) == 0 {
		return condition{sql: "1 = 1"}
	}
	return condition{strings.Join(sql, " AND "), args}
}

// finder finds the places of the newest records that match a query. Its statements keep both databases from reading more than a page needs,
// whatever is asked for:
//
//   - What few records have (a request, a session, a person, an address) is read through its index.
//   - Otherwise the facets that match are picked, and each is asked for its newest record; the newest of the page can only be in the facets
//     with the newest of these. If many facets match, the newest records of all are looked at first.
//   - Text is looked for in facets, and in the terms of the few records that have some, which are asked in the same way.
type finder struct {
	db     *gorm.DB
	n      int
	few    int         // fewFacets
	window int         // scanWindow
	bounds bounds      // on a table called e
	exact  []condition // on e: what few records have
	source []condition // on e: what may be few or many
	tenant string
	facets []condition // on f, with the tenant
	text   string      // pattern for LIKE
	ask    string      // the text as it was asked for
}

func newFinder(db *gorm.DB, q Query, n int) (finder, error) {
	f := finder{db: db, n: n, few: fewFacets, window: scanWindow, tenant: facet.Value(q.Tenant), ask: q.Text}
	for _, c := range []struct{ sql, value string }{
		{"e.request = ?", q.Request},
		{"e.session = ? AND e.session <> ''", q.Session},
		{"e.on_behalf_of = ? AND e.on_behalf_of <> ''", q.OnBehalfOf},
	} {
		if c.value != "" {
			f.exact = append(f.exact, condition{c.sql, []any{column(c.value)}})
		}
	}
	if q.Source != "" {
		f.source = []condition{{"e.source = ? AND e.source <> ''", []any{column(q.Source)}}}
	}
	for _, c := range []struct{ column, value string }{
		{"tenant", q.Tenant},
		{"actor", q.Actor},
		{"action", q.Action},
		{"stage", string(q.Stage)},
		{"outcome", q.Outcome},
		{"model", q.Model},
		{"rollout", q.Rollout},
		{"project", q.Project},
		{"version", q.Version},
		{"policy", q.Policy},
	} {
		if c.value != "" {
			f.facets = append(f.facets, condition{"f." + c.column + " = ?", []any{facet.Value(c.value)}})
		}
	}
	if q.Class != "" {
		f.facets = append(f.facets, condition{`f.classes LIKE ? ESCAPE '\'`, []any{like(facet.Class(q.Class))}})
	}
	if q.Text != "" {
		f.text = like(facet.Fold(facet.Value(q.Text)))
	}
	f.bounds = bounds{from: q.From, to: q.To}
	if q.Cursor != "" {
		at, id, err := parseCursor(q.Cursor)
		if err != nil {
			return finder{}, err
		}
		f.bounds = f.bounds.behind(place{at, id})
	}
	return f, nil
}

// bounds are on time and, behind a place, on the id. Zeros are open.
type bounds struct {
	from, to int64
	last     *place
}

// behind narrows the bounds to what comes after p.
func (b bounds) behind(p place) bounds {
	if b.to == 0 || p.Time < b.to {
		b.to, b.last = 0, &p
	}
	return b
}

// since narrows the bounds to what is not before a time.
func (b bounds) since(at int64) bounds {
	b.from = max(b.from, at)
	return b
}

// on returns the bounds as conditions on e: one in each direction, since SQLite uses no more of an index.
func (b bounds) on() []condition {
	var out []condition
	if b.from != 0 {
		out = append(out, condition{"e.time >= ?", []any{b.from}})
	}
	if b.to != 0 {
		out = append(out, condition{"e.time < ?", []any{b.to}})
	}
	if b.last != nil {
		out = append(out, condition{"e.time <= ? AND (e.time < ? OR e.id < ?)", []any{b.last.Time, b.last.Time, b.last.ID}})
	}
	return out
}

// like is the pattern for what contains s.
func like(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s) + "%"
}

// find returns at most n places, newest first.
func (f finder) find() ([]place, error) {
	switch {
	case len(f.exact) > 0 || len(f.source) > 0 && (f.text != "" || len(f.facets) == 0):
		return f.fewHave(slices.Concat(f.exact, f.source))
	case f.text != "":
		return f.withText()
	case len(f.source) == 0 && (len(f.facets) == 0 || f.tenant != "" && len(f.facets) == 1):
		c := all(f.bounds.on(), f.ofTenant())
		return f.places("SELECT e.time, e.id FROM audit_events AS e WHERE "+c.sql+" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(c.args, f.n)...)
	}
	return f.inFacets(f.facets)
}

func (f finder) places(sql string, args ...any) ([]place, error) {
	var out []place
	err := f.db.Raw(sql, args...).Scan(&out).Error
	return out, err
}

// ofTenant is the tenant as a condition on e, or the source: an index has one of them.
func (f finder) ofTenant() []condition {
	if len(f.source) > 0 {
		return f.source
	}
	if f.tenant == "" {
		return nil
	}
	return []condition{{"e.tenant = ?", []any{f.tenant}}}
}

func (f finder) inText() []condition { return []condition{{`f.text LIKE ? ESCAPE '\'`, []any{f.text}}} }

// fewHave reads the records with exact, which are few. CROSS JOIN has SQLite begin with them.
func (f finder) fewHave(exact []condition) ([]place, error) {
	read := func(more ...condition) ([]place, error) {
		c := all(exact, f.bounds.on(), f.facets, more)
		return f.places("SELECT e.time, e.id FROM audit_events AS e CROSS JOIN audit_facets AS f WHERE f.id = e.facet AND "+c.sql+
			" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(c.args, f.n)...)
	}
	if f.text == "" {
		return read()
	}
	t := all(f.termsWithText())
	// All three at once would keep the databases from the indexes.
	return f.merge(
		func() ([]place, error) { return read(f.inText()...) },
		func() ([]place, error) {
			return read(condition{"EXISTS (SELECT 1 FROM audit_terms AS t CROSS JOIN audit_postings AS p WHERE " + t.sql +
				" AND p.term = t.id AND p.time = e.time AND p.id = e.id)", t.args})
		},
		func() ([]place, error) { return read(condition{"e.request = ?", []any{column(f.ask)}}) },
	)
}

// termsWithText are the conditions on t, a term.
func (f finder) termsWithText() []condition {
	c := []condition{{`t.text LIKE ? ESCAPE '\'`, []any{f.text}}}
	if f.tenant != "" {
		c = append(c, condition{"t.tenant = ?", []any{f.tenant}})
	}
	return c
}

// withText finds what has the text in its facet, in a term, or as its request.
func (f finder) withText() ([]place, error) {
	return f.merge(
		func() ([]place, error) { return f.inFacets(slices.Concat(f.facets, f.inText())) },
		f.inTerms,
		func() ([]place, error) {
			f := f
			f.text = ""
			return f.fewHave([]condition{{"e.request = ?", []any{column(f.ask)}}})
		},
	)
}

// merge returns the newest of what the searches find, each once.
func (f finder) merge(searches ...func() ([]place, error)) ([]place, error) {
	var out []place
	for _, search := range searches {
		found, err := search()
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return f.first(out), nil
}

func (f finder) first(places []place) []place {
	slices.SortFunc(places, newest)
	places = slices.Compact(places)
	return places[:min(len(places), f.n)]
}

// inFacets finds the newest records of the facets that match.
func (f finder) inFacets(conditions []condition) ([]place, error) {
	c := all(conditions)
	var few [][]byte
	err := f.db.Raw("SELECT f.id FROM audit_facets AS f WHERE "+c.sql+" LIMIT ?", append(c.args, f.few+1)...).Scan(&few).Error
	if err != nil || len(few) == 0 {
		return nil, err
	}
	if len(few) <= f.few {
		c = condition{"f.id IN ?", []any{few}}
	} else {
		found, done, err := f.scan(conditions, f.bounds, f.window)
		if err != nil || done {
			return found, err
		}
	}
	found, tied, err := f.newestOf(lists{
		of: "audit_facets AS f", where: c, list: "audit_events AS e", key: "e.facet", match: "e.facet = f.id", id: "f.id", more: all(f.source),
	})
	if err != nil || !tied {
		return found, err
	}
	return f.scanAll(conditions)
}

// scan looks at up to window records within bounds, newest first, for those that match. It is done when it found n or has seen all.
func (f finder) scan(conditions []condition, within bounds, window int) (found []place, done bool, err error) {
	b, c := all(within.on(), f.ofTenant()), all(conditions)
	found, err = f.places("SELECT e.time, e.id FROM (SELECT e.time, e.id, e.facet FROM audit_events AS e WHERE "+b.sql+
		" ORDER BY e.time DESC, e.id DESC LIMIT ?) AS e CROSS JOIN audit_facets AS f WHERE f.id = e.facet AND "+c.sql+
		" ORDER BY e.time DESC, e.id DESC LIMIT ?", slices.Concat(b.args, []any{window}, c.args, []any{f.n})...)
	if err != nil || len(found) == f.n {
		return found, true, err
	}
	last, err := f.lastOf(within, window)
	return found, last == nil, err
}

// lastOf returns the last of window records within bounds, nil if there are fewer.
func (f finder) lastOf(within bounds, window int) (*place, error) {
	b := all(within.on(), f.ofTenant())
	last, err := f.places("SELECT e.time, e.id FROM audit_events AS e WHERE "+b.sql+" ORDER BY e.time DESC, e.id DESC LIMIT 1 OFFSET ?", append(b.args, window-1)...)
	if err != nil || len(last) == 0 {
		return nil, err
	}
	return &last[0], nil
}

// scanAll looks at every record until n are found, in windows that grow. It is for the case that more facets than a page has records have
// their newest record at the same microsecond.
func (f finder) scanAll(conditions []condition) ([]place, error) {
	var out []place
	within := f.bounds
	for window := f.window; ; window *= 2 {
		found, done, err := f.scan(conditions, within, window)
		if err != nil {
			return nil, err
		}
		if out = f.first(append(out, found...)); done || len(out) == f.n {
			return out, nil
		}
		last, err := f.lastOf(within, window)
		if err != nil || last == nil {
			return out, err
		}
		within = within.behind(*last)
	}
}

// lists are lists of records that are read newest first: those of facets, and those of terms.
type lists struct {
	of    string    // table of the lists
	where condition // which of them
	id    string    // of a list
	list  string    // table of what is on the lists, called e, with what must be joined to it
	key   string    // column of list that holds the id of its list
	match string    // joins it
	more  condition // on what is on a list
}

// newestOf returns the newest of what is on the lists. tied says that it cannot tell, since too many of them begin at the same time.
func (f finder) newestOf(l lists) (found []place, tied bool, err error) {
	if l.more.sql == "" {
		l.more = all()
	}
	b := all(f.bounds.on())
	var heads []struct {
		ID   []byte
		Head *int64
	}
	err = f.db.Raw("SELECT "+l.id+" AS id, (SELECT e.time FROM "+l.list+" WHERE "+l.match+" AND "+b.sql+" AND "+l.more.sql+
		" ORDER BY e.time DESC, e.id DESC LIMIT 1) AS head FROM "+l.of+" WHERE "+l.where.sql+" ORDER BY head DESC NULLS LAST LIMIT ?",
		slices.Concat(b.args, l.more.args, l.where.args, []any{f.n + 1})...).Scan(&heads).Error
	if err != nil {
		return nil, false, err
	}
	var ids [][]byte
	since := int64(0)
	for i, h := range heads {
		if h.Head == nil {
			break
		}
		if i == f.n {
			if *h.Head == since {
				return nil, true, nil
			}
			break
		}
		ids, since = append(ids, h.ID), *h.Head
	}
	if len(ids) == f.n { // each of them has one at least as new as this
		b = all(f.bounds.since(since).on())
	}
	for part := range slices.Chunk(ids, unionParts) {
		var sql []string
		var args []any
		for _, id := range part {
			sql = append(sql, "SELECT * FROM (SELECT e.time, e.id FROM "+l.list+" WHERE "+l.key+" = ? AND "+b.sql+" AND "+l.more.sql+
				" ORDER BY e.time DESC, e.id DESC LIMIT ?) AS part")
			args = slices.Concat(args, []any{id}, b.args, l.more.args, []any{f.n})
		}
		some, err := f.places(strings.Join(sql, " UNION ALL "), args...)
		if err != nil {
			return nil, false, err
		}
		found = f.first(append(found, some...))
	}
	return found, false, nil
}

// inTerms finds the newest records that have a term with the text.
func (f finder) inTerms() ([]place, error) {
	l := lists{of: "audit_terms AS t", where: all(f.termsWithText()), id: "t.id", list: "audit_postings AS e", key: "e.term", match: "e.term = t.id"}
	if len(f.facets) > 1 || f.tenant == "" && len(f.facets) > 0 { // a term is of one tenant
		l.list += " CROSS JOIN audit_facets AS f"
		l.more = all([]condition{{sql: "f.id = e.facet"}}, f.facets)
	}
	found, tied, err := f.newestOf(l)
	if err != nil || !tied {
		return found, err
	}
	c := all([]condition{l.where}, f.bounds.on())
	if l.more.sql != "" {
		c = all([]condition{c, l.more})
	}
	return f.places("SELECT DISTINCT e.time, e.id FROM audit_terms AS t CROSS JOIN "+l.list+" WHERE "+l.match+" AND "+c.sql+
		" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(c.args, f.n)...)
}
