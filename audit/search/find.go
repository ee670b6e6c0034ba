package search

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

const (
	// fewSets is how many attribute sets are asked for their newest record before anything else is tried.
	fewSets = 1000
	// scanWindow is how many records are looked at, newest first, when many attribute sets match: then a page is usually among the newest.
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
//   - What few records have (a request, a session, a person) is read through its index.
//   - Otherwise it picks the attribute sets that match and asks each for its newest record: the newest of the page can only be in the sets
//     with the newest of these. If many sets match, it looks at the newest records of all first. Then it asks sets in the order of what they
//     say is before all their records, as long as that can be newer than what is found.
//   - It looks for an address among the attribute sets that have it; the records of each with that address have an index.
//   - It looks for text in attribute sets, and in the terms of the few records that have some, which it asks in the same way.
//
// A finder is for one call of find, in a snapshot.
type finder struct {
	db     *gorm.DB
	n      int
	few    int         // fewSets
	window int         // scanWindow
	bounds bounds      // on a table called e
	exact  []condition // on e: what few records have
	source string
	tenant string
	sets   []condition // on f, a row of audit_facets, with the tenant
	text   string      // pattern for LIKE
	ask    string      // the text as it was asked for
}

func newFinder(q Query, n int) (finder, error) {
	f := finder{n: n, few: fewSets, window: scanWindow, source: database.Text(q.Source), tenant: value(q.Tenant), ask: q.Text}
	for _, c := range []struct{ sql, value string }{
		{"e.request = ?", q.Request},
		{"e.session = ? AND e.session <> ''", q.Session},
		{"e.on_behalf_of = ? AND e.on_behalf_of <> ''", q.OnBehalfOf},
	} {
		if c.value != "" {
			f.exact = append(f.exact, condition{c.sql, []any{database.Text(c.value)}})
		}
	}
	for _, c := range []struct{ column, value string }{
		{"tenant", q.Tenant},
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
			f.sets = append(f.sets, condition{"f." + c.column + " = ?", []any{value(c.value)}})
		}
	}
	if q.Actor != "" {
		actors := []string{value(q.Actor)}
		for _, k := range q.Keys {
			actors = append(actors, value(k))
		}
		f.sets = append(f.sets, condition{"f.actor IN ?", []any{actors}})
	}
	if q.Class != "" {
		f.sets = append(f.sets, condition{`f.classes LIKE ? ESCAPE '\'`, []any{like(class(q.Class))}})
	}
	if q.Text != "" {
		f.text = like(fold(value(q.Text)))
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
func (f finder) find(tx *gorm.DB) ([]place, error) {
	f.db = tx
	switch {
	case len(f.exact) > 0:
		return f.fewHave(slices.Concat(f.exact, f.fromSource()))
	case f.text != "":
		return f.withText()
	case f.source == "" && (len(f.sets) == 0 || f.tenant != "" && len(f.sets) == 1):
		c := all(f.bounds.on(), f.ofTenant())
		return f.places("SELECT e.time, e.id FROM audit_events AS e WHERE "+c.sql+" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(c.args, f.n)...)
	}
	return f.inSets(f.sets)
}

func (f finder) places(sql string, args ...any) ([]place, error) {
	var out []place
	err := f.db.Raw(sql, args...).Scan(&out).Error
	return out, err
}

// ofTenant is the tenant as a condition on e.
func (f finder) ofTenant() []condition {
	if f.tenant == "" {
		return nil
	}
	return []condition{{"e.tenant = ?", []any{f.tenant}}}
}

// fromSource is the address as a condition on e.
func (f finder) fromSource() []condition {
	if f.source == "" {
		return nil
	}
	return []condition{{"e.source = ? AND e.source <> ''", []any{f.source}}}
}

func (f finder) inText() []condition { return []condition{{`f.text LIKE ? ESCAPE '\'`, []any{f.text}}} }

// fewHave reads the records with exact, which are few. CROSS JOIN has SQLite begin with them.
func (f finder) fewHave(exact []condition) ([]place, error) {
	read := func(more ...condition) ([]place, error) {
		c := all(exact, f.bounds.on(), f.sets, more)
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
		func() ([]place, error) { return read(condition{"e.request = ?", []any{database.Text(f.ask)}}) },
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

// withText finds what has the text in its attribute set, in a term, or as its request.
func (f finder) withText() ([]place, error) {
	return f.merge(
		func() ([]place, error) { return f.inSets(slices.Concat(f.sets, f.inText())) },
		f.inTerms,
		func() ([]place, error) {
			f := f
			f.text = ""
			return f.fewHave(append(f.fromSource(), condition{"e.request = ?", []any{database.Text(f.ask)}}))
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

// inSets finds the newest records of the attribute sets that match.
func (f finder) inSets(conditions []condition) ([]place, error) {
	r := reading{of: "audit_facets AS f", id: "f.id", row: "f", on: "audit_events AS e", key: "e.facet", more: f.fromSource()}
	var join []condition
	if f.source != "" {
		r.of, r.id, r.row = "audit_sources AS s CROSS JOIN audit_facets AS f", "s.facet", "s"
		join = []condition{{"s.source = ? AND f.id = s.facet", []any{f.source}}}
	}
	r.where = all(join, conditions)
	var few [][]byte
	err := f.db.Raw("SELECT "+r.id+" FROM "+r.of+" WHERE "+r.where.sql+" LIMIT ?", append(r.where.args, f.few+1)...).Scan(&few).Error
	if err != nil || len(few) == 0 {
		return nil, err
	}
	if len(few) <= f.few {
		r.where = all(join, []condition{{r.id + " IN ?", []any{few}}})
	} else {
		found, done, err := f.scan(conditions, f.bounds, f.window)
		if err != nil || done {
			return found, err
		}
	}
	found, tied, err := f.newestOf(r)
	if err != nil || !tied {
		return found, err
	}
	return f.scanAll(conditions)
}

// scan looks at up to window records within bounds, newest first, for those that match. It is done when it found n or has seen all.
func (f finder) scan(conditions []condition, within bounds, window int) (found []place, done bool, err error) {
	b, c := all(within.on(), f.ofTenant()), all(f.fromSource(), conditions)
	found, err = f.places("SELECT e.time, e.id FROM (SELECT e.time, e.id, e.facet, e.source FROM audit_events AS e WHERE "+b.sql+
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

// scanAll looks at every record until n are found, in windows that grow. It is for the case that more attribute sets than a page has records have
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

// reading says which lists of records are read, newest first: those of attribute sets, and those of terms.
type reading struct {
	of    string      // tables of the lists
	where condition   // which of them
	id    string      // column: the id of a list
	row   string      // which table says oldest and newest of a list
	on    string      // table of what is on the lists, called e, with what must be joined to it
	key   string      // column of on: the list it is on
	more  []condition // on what is on a list
}

// first is the statement that reads the first records of the list that is the given expression.
func (r reading) first(columns, list string, b bounds) condition {
	c := all(b.on(), r.more)
	return condition{"SELECT " + columns + " FROM " + r.on + " WHERE " + r.key + " = " + list + " AND " + c.sql + " ORDER BY e.time DESC, e.id DESC LIMIT ?", c.args}
}

// opening is a list with the time of its newest record, nil if it has none.
type opening struct {
	ID     []byte
	Newest int64
	Head   *int64
}

// openings returns the n+1 lists that have the newest records, newest first. It asks lists in the order of what is before all their records,
// until that cannot be newer than what was found.
func (f finder) openings(r reading) ([]opening, error) {
	where := []condition{r.where}
	if f.bounds.from != 0 {
		where = append(where, condition{r.row + ".newest > ?", []any{f.bounds.from}})
	}
	if f.bounds.to != 0 {
		where = append(where, condition{r.row + ".oldest < ?", []any{f.bounds.to}})
	}
	if f.bounds.last != nil {
		where = append(where, condition{r.row + ".oldest <= ?", []any{f.bounds.last.Time}})
	}
	c := all(where)
	head := r.first("e.time", "p.id", f.bounds)
	sql := "SELECT p.id, p.newest, (" + head.sql + ") AS head FROM (SELECT " + r.id + " AS id, " + r.row + ".newest AS newest FROM " + r.of + " WHERE " +
		c.sql + " ORDER BY newest DESC, id LIMIT ? OFFSET ?) AS p"
	args := slices.Concat(head.args, []any{1}, c.args)
	var best []opening
	for offset, window := 0, 2*(f.n+1); ; offset, window = offset+window, 2*window {
		var some []opening
		if err := f.db.Raw(sql, slices.Concat(args, []any{window, offset})...).Scan(&some).Error; err != nil {
			return nil, err
		}
		rest := int64(math.MaxInt64) // all records of the lists to come are from before
		for _, o := range some {
			rest = min(rest, o.Newest)
			if o.Head != nil {
				best = append(best, o)
			}
		}
		slices.SortFunc(best, func(a, b opening) int { return cmp.Compare(*b.Head, *a.Head) })
		best = best[:min(len(best), f.n+1)]
		if len(some) < window || len(best) > f.n && *best[f.n].Head >= rest {
			return best, nil
		}
	}
}

// newestOf returns the newest of what is on the lists. tied says that it cannot tell, since too many of them begin at the same time.
func (f finder) newestOf(r reading) (found []place, tied bool, err error) {
	best, err := f.openings(r)
	if err != nil {
		return nil, false, err
	}
	within := f.bounds
	if len(best) > f.n {
		if *best[f.n].Head == *best[f.n-1].Head {
			return nil, true, nil
		}
		best = best[:f.n]
	}
	if len(best) == f.n { // each of them has one at least as new as this
		within = within.since(*best[f.n-1].Head)
	}
	for part := range slices.Chunk(best, unionParts) {
		var sql []string
		var args []any
		for _, o := range part {
			c := r.first("e.time, e.id", "?", within)
			sql = append(sql, "SELECT * FROM ("+c.sql+") AS part")
			args = slices.Concat(args, []any{o.ID}, c.args, []any{f.n})
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
	r := reading{of: "audit_terms AS t", where: all(f.termsWithText()), id: "t.id", row: "t", on: "audit_postings AS e", key: "e.term"}
	if len(f.sets) > 1 || f.tenant == "" && len(f.sets) > 0 { // a term is of one tenant
		r.on += " CROSS JOIN audit_facets AS f"
		r.more = slices.Concat([]condition{{sql: "f.id = e.facet"}}, f.sets)
	}
	if f.source != "" { // some records of the sets that have it have it
		r.more = append(r.more, condition{"e.facet IN (SELECT s.facet FROM audit_sources AS s WHERE s.source = ?)", []any{f.source}},
			condition{"EXISTS (SELECT 1 FROM audit_events AS x WHERE x.id = e.id AND x.time = e.time AND x.source = ?)", []any{f.source}})
	}
	found, tied, err := f.newestOf(r)
	if err != nil || !tied {
		return found, err
	}
	c := all([]condition{r.where, {sql: r.key + " = t.id"}}, f.bounds.on(), r.more)
	return f.places("SELECT DISTINCT e.time, e.id FROM audit_terms AS t CROSS JOIN "+r.on+" WHERE "+c.sql+" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(c.args, f.n)...)
}
