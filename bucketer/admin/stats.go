package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// An hour is closed hourCloses after its end: all that will be written of it has been.
	hourCloses = 2 * time.Minute
	// What nodes tell of a minute under way, and what is read of an hour that is not closed, is read
	// again after statsFresh and never used after statsMaxAge.
	statsFresh  = time.Second
	statsMaxAge = 2 * time.Second
	// Closed hours are read again after closedFresh: a node whose clock is slow may have written.
	closedFresh  = 10 * time.Minute
	closedMaxAge = time.Hour
	// hoursKept bounds the closed hours in memory, and tenantHoursKept those of single tenants. An
	// hour takes 30 KiB.
	hoursKept       = 100
	tenantHoursKept = 500
	openHoursKept   = 8
	// toldFor is how long ago a minute may have ended of which nodes still tell.
	toldFor = 2 * time.Minute
)

// Minute is what the nodes counted in a minute, together.
type Minute struct {
	Minute                                           time.Time
	Due, Started, Succeeded, Failed, Missed, Retried int64
	MissedFor                                        schema.MissedFor
	Lateness                                         Lateness              // by classes as narrow as they were counted
	Classes                                          schema.LatenessCounts // the same starts by the fixed classes

	Running bool // it is under way: counted so far
	// Partial: of one tenant: on some node it was not among those that are counted each for itself.
	Partial bool
}

// Lateness is how many first starts were how late, by class, in the order of classes.
type Lateness []schema.LatenessClass

// LatenessOf returns the fixed classes, of which the latest start was so late.
func LatenessOf(c *schema.LatenessCounts, latest schema.Duration) (l Lateness) {
	for i, n := range c {
		upTo := latest
		if i < len(schema.LatenessBounds) {
			upTo = min(upTo, schema.Duration(schema.LatenessBounds[i]))
		}
		if n > 0 {
			l = append(l, schema.LatenessClass{UpTo: upTo, Count: n})
		}
	}
	return l
}

// Count returns how many starts there were.
func (l Lateness) Count() (n int64) {
	for _, c := range l {
		n += c.Count
	}
	return n
}

// Rank returns the upper end of the class of the start of that rank, of all starts in the order of
// their lateness. q is from 0 to 1, so 1 is the latest.
func (l Lateness) Rank(q float64) schema.Duration {
	left := int64(q*float64(l.Count()) + .5)
	for _, c := range l {
		if left -= c.Count; left <= 0 && c.Count > 0 {
			return c.UpTo
		}
	}
	return 0
}

// add returns l and other together.
func (l Lateness) add(other []schema.LatenessClass) Lateness {
	for _, c := range other {
		i, found := slices.BinarySearchFunc(l, c, func(a, b schema.LatenessClass) int { return cmp.Compare(a.UpTo, b.UpTo) })
		if found {
			l[i].Count += c.Count
		} else {
			l = slices.Insert(l, i, c)
		}
	}
	return l
}

// Told is what nodes tell of minutes that may not be in the store yet: the one under way, and those
// that have just ended. It takes the place of what the store has of the same node and minute.
type Told struct {
	Minutes []schema.MinuteStats // of all runs …
	Names   []schema.NameStats   // … or of the kind that was asked for
	Missing []string             // nodes that did not answer
}

// StatsConfig wires Stats.
type StatsConfig struct {
	Store schema.StatsStore
	// Ask asks the living nodes for the counts by the names of a kind; "": for those of all runs. Nil:
	// the minute under way is not known.
	Ask func(ctx context.Context, kind schema.StatsKind) (Told, error)
	Now func() time.Time
}

// Stats reads the counts of minutes. What many ask for at once is read once.
type Stats struct {
	store schema.StatsStore
	asks  bool
	now   func() time.Time

	told        *refreshingCache[schema.StatsKind, Told]
	open        *refreshingCache[int, []schema.MinuteStats] // by hour
	closed      *refreshingCache[int, []Minute]
	openNames   *refreshingCache[kindHour, []schema.NameStats]
	closedNames *refreshingCache[hourPart, hourNames]
	ofTenant    *refreshingCache[tenantHour, []Minute] // closed hours

	mu     sync.Mutex
	opened map[kindHour]openHour
}

// kindHour names the counts of a kind in an hour.
type kindHour struct {
	kind schema.StatsKind
	hour int
}

type tenantHour struct {
	tenant string
	hour   int
}

// NewStats returns a Stats.
func NewStats(c StatsConfig) *Stats {
	s := &Stats{store: c.Store, asks: c.Ask != nil, now: c.Now, opened: make(map[kindHour]openHour)}
	s.told = newRefreshingCache(c.Ask, c.Now, statsFresh, statsMaxAge, len(schema.StatsKinds)+1)
	s.open = newRefreshingCache(c.Store.Stats, c.Now, statsFresh, statsMaxAge, openHoursKept)
	s.closed = newRefreshingCache(func(ctx context.Context, hour int) ([]Minute, error) {
		rows, err := c.Store.Stats(ctx, hour)
		return together(rows), err
	}, c.Now, closedFresh, closedMaxAge, hoursKept)
	s.openNames = newRefreshingCache(s.readOpen, c.Now, statsFresh, statsMaxAge, namesRemembered)
	s.openNames.weigh = weighNames
	s.closedNames = newRefreshingCache(s.readPart, c.Now, closedFresh, closedMaxAge, namesRemembered)
	s.closedNames.weigh = func(n hourNames) int { return 1 + len(n.names) }
	s.ofTenant = newRefreshingCache(func(ctx context.Context, at tenantHour) ([]Minute, error) {
		rows, err := s.readNames(ctx, kindHour{schema.ByTenant, at.hour})
		return minutesOf(rows, at.tenant), err
	}, c.Now, closedFresh, closedMaxAge, tenantHoursKept)
	return s
}

// MinutesQuery selects minutes, From ≤ minute < To.
type MinutesQuery struct {
	From, To time.Time
	Tenant   string // "": of all runs together
}

// Minutes returns the counts of all nodes together, by minute, and the nodes that did not tell of
// the minute under way. Minutes without a count are left out, but not the one under way. It reads
// an hour at a time: the caller bounds the window.
func (s *Stats) Minutes(ctx context.Context, q MinutesQuery) (all []Minute, missing []string, err error) {
	now := s.now()
	running := now.UTC().Truncate(time.Minute)
	kind := schema.StatsKind("")
	if q.Tenant != "" {
		kind = schema.ByTenant
	}
	told, err := s.toldOf(ctx, kind, q.To, now) // first: what is written meanwhile is in the store then
	if err != nil {
		return nil, nil, err
	}
	for hour := schema.StatsHour(q.From); hour <= schema.StatsHour(q.To.Add(-time.Nanosecond)); hour++ {
		minutes, err := s.hour(ctx, q.Tenant, hour, told, now)
		if err != nil {
			return nil, nil, fmt.Errorf("read the counts of an hour: %w", err)
		}
		for _, m := range minutes {
			if m.Minute.Before(q.From) || !m.Minute.Before(q.To) {
				continue
			}
			m.Running = s.asks && !m.Minute.Before(running)
			all = append(all, m)
		}
	}
	known := len(all) > 0 && all[len(all)-1].Running
	if s.asks && !known && !running.Before(q.From) && running.Before(q.To) {
		all = append(all, Minute{Minute: running, Running: true})
	}
	return all, told.Missing, nil
}

// toldOf asks the living nodes, if the window reaches into what the store may not have yet.
func (s *Stats) toldOf(ctx context.Context, kind schema.StatsKind, to, now time.Time) (Told, error) {
	if !s.asks || to.Before(now.Add(-toldFor)) {
		return Told{}, nil
	}
	return s.told.of(ctx, kind)
}

// isClosed reports whether nothing is written of an hour any more.
func isClosed(hour int, now time.Time) bool {
	return !now.Before(time.Unix(int64(hour+1)*3600, 0).Add(hourCloses))
}

// hour returns the minutes of an hour, of a tenant unless that is "".
func (s *Stats) hour(ctx context.Context, tenant string, hour int, told Told, now time.Time) ([]Minute, error) {
	closed := isClosed(hour, now)
	switch {
	case closed && tenant != "":
		return s.ofTenant.of(ctx, tenantHour{tenant, hour})
	case closed:
		return s.closed.of(ctx, hour)
	case tenant != "":
		rows, err := s.openNames.of(ctx, kindHour{schema.ByTenant, hour})
		return minutesOf(current(rows, told.Names, hour, addressOfNames), tenant), err
	}
	rows, err := s.open.of(ctx, hour)
	return together(current(rows, told.Minutes, hour, addressOfMinute)), err
}

// address names a row of counts.
type address struct {
	minute int64 // Unix seconds
	node   string
}

func addressOfMinute(m *schema.MinuteStats) address { return address{m.Minute.Unix(), m.Node} }
func addressOfNames(n *schema.NameStats) address    { return address{n.Minute.Unix(), n.Node} }

// current returns the rows of an hour with what was told in the place of what the store has, by
// minute and node. It leaves rows as they are.
func current[T any](rows, told []T, hour int, at func(*T) address) []T {
	is := make(map[address]bool)
	var all []T
	for i := range told {
		a := at(&told[i])
		if schema.StatsHour(time.Unix(a.minute, 0)) == hour && !is[a] {
			is[a] = true
			all = append(all, told[i])
		}
	}
	for i := range rows {
		if !is[at(&rows[i])] {
			all = append(all, rows[i])
		}
	}
	slices.SortFunc(all, func(x, y T) int {
		a, b := at(&x), at(&y)
		return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(a.node, b.node))
	})
	return all
}

// together returns the counts of all nodes together. Rows come by minute.
func together(rows []schema.MinuteStats) (all []Minute) {
	for i := range rows {
		r := &rows[i]
		m := minuteAt(&all, r.Minute)
		m.Due += r.Due
		m.Started += r.Started
		m.Succeeded += r.Succeeded
		m.Failed += r.Failed
		m.Missed += r.Missed
		m.MissedFor.Add(&r.MissedFor)
		m.Retried += r.Retried
		m.Lateness = m.Lateness.add(r.Lateness)
		fixed := r.FixedClasses()
		m.Classes.Add(&fixed)
	}
	return all
}

// minuteAt returns the last minute of all, which it adds if it is not there yet.
func minuteAt(all *[]Minute, at time.Time) *Minute {
	if n := len(*all); n == 0 || !(*all)[n-1].Minute.Equal(at) {
		*all = append(*all, Minute{Minute: at})
	}
	return &(*all)[len(*all)-1]
}

// minutesOf returns the counts of one tenant, of all nodes together. Rows come by minute.
func minutesOf(rows []schema.NameStats, tenant string) (all []Minute) {
	for i := range rows {
		r := &rows[i]
		at := slices.IndexFunc(r.Names, func(n schema.NameCounts) bool { return n.Tenant == tenant })
		partial := at < 0 && r.Others != schema.Counts{}
		if at < 0 && !partial {
			continue
		}
		m := minuteAt(&all, r.Minute)
		m.Partial = m.Partial || partial
		if at < 0 {
			continue
		}
		c := &r.Names[at].Counts
		m.Due += c.Due
		m.Started += c.Started
		m.Succeeded += c.Succeeded
		m.Failed += c.Failed
		m.Missed += c.Missed
		m.MissedFor.Add(&c.MissedFor)
		m.Retried += c.Retried
		m.Lateness = m.Lateness.add(LatenessOf(&c.Lateness, c.MaxLateness))
		m.Classes.Add(&c.Lateness)
	}
	return all
}
