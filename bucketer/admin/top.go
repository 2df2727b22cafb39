package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

const (
	// namesOfHour bounds the names that are kept of the counts of one hour.
	namesOfHour = 1000
	// namesRemembered bounds the names of the hours in memory, of those that are closed and of those
	// that are not: some 300 bytes each.
	namesRemembered = 100_000
	// openWhole is for how long minutes of an hour that is not closed are not read again, once they are
	// older than hourCloses: a node may be slow to write.
	openWhole = 5 * time.Minute
)

// Order says by what the names of a Top are ordered.
type Order string

// The orders. All come with the highest first, then by weight, then by name.
const (
	OrderActivity Order = "activity" // by weight: what is busy or in trouble
	OrderStarted  Order = "started"
	OrderFailed   Order = "failed"
	OrderMissed   Order = "missed"
	OrderRetried  Order = "retried"
	OrderLate     Order = "late"
)

// of returns the number by which names are ordered.
func (o Order) of(c *schema.Counts) int64 {
	switch o {
	case OrderStarted:
		return c.Started
	case OrderFailed:
		return c.Failed
	case OrderMissed:
		return c.Missed
	case OrderRetried:
		return c.Retried
	case OrderLate:
		return c.Lateness.Late()
	}
	return c.Weight()
}

// TopQuery selects the names of a kind, of the minutes From ≤ minute < To.
type TopQuery struct {
	Kind     schema.StatsKind
	From, To time.Time
	Tenant   string // only its names; "": those of all
	Order    Order
	Limit    int // the most names
}

// Top is what was counted by name.
type Top struct {
	Names  []schema.NameCounts
	Others schema.Counts // those beyond the limit, and of all tenants those that were not counted each for itself
	// Complete: every name was counted for itself in every minute.
	Complete bool
	Missing  []string // nodes that did not tell of the minute under way
}

// nameKey names a name. A job keeps its id where its name changes.
type nameKey struct {
	tenant, name string
	job          schema.JobID
}

func keyOf(n *schema.NameCounts) nameKey {
	if !n.Job.IsZero() {
		return nameKey{tenant: n.Tenant, job: n.Job}
	}
	return nameKey{tenant: n.Tenant, name: n.Name}
}

// hourNames are the counts of a part of an hour by name.
type hourNames struct {
	names  []schema.NameCounts
	others schema.Counts
}

// hourPart names a part of an hour: first ≤ minute < last, in Unix seconds.
type hourPart struct {
	kindHour
	first, last int64
}

// nameSums adds counts up by name.
type nameSums struct {
	byKey  map[nameKey]*schema.NameCounts
	others schema.Counts
}

// add adds counts of a minute; those of a stretch of time, which say of which minutes they are, if it
// is zero.
func (s *nameSums) add(names []schema.NameCounts, others *schema.Counts, minute time.Time) {
	for i := range names {
		n := &names[i]
		k := keyOf(n)
		sum := s.byKey[k]
		if sum == nil {
			sum = &schema.NameCounts{Tenant: n.Tenant, Job: n.Job}
			s.byKey[k] = sum
		}
		if n.Name != "" { // the latest
			sum.Name = n.Name
		}
		of := *n // the row is shared
		if !minute.IsZero() {
			of.Seen(minute)
		}
		sum.AddMinutes(&of)
	}
	s.others.Add(others)
}

// names returns the sums, in no order.
func (s *nameSums) names() []schema.NameCounts {
	all := make([]schema.NameCounts, 0, len(s.byKey))
	for _, n := range s.byKey {
		all = append(all, *n)
	}
	return all
}

// Top returns what was counted by name. The caller bounds the window.
func (s *Stats) Top(ctx context.Context, q TopQuery) (Top, error) {
	now := s.now()
	told, err := s.toldOf(ctx, q.Kind, q.To, now) // first: what is written meanwhile is in the store then
	if err != nil {
		return Top{}, err
	}
	sums := nameSums{byKey: make(map[nameKey]*schema.NameCounts)}
	for hour := schema.StatsHour(q.From); hour <= schema.StatsHour(q.To.Add(-time.Nanosecond)); hour++ {
		begin := time.Unix(int64(hour)*3600, 0)
		part := hourPart{
			kindHour: kindHour{q.Kind, hour},
			first:    max(ceilMinute(q.From), begin.Unix()), last: min(ceilMinute(q.To), begin.Add(time.Hour).Unix()),
		}
		var of hourNames
		if isClosed(hour, now) {
			of, err = s.closedNames.of(ctx, part)
		} else {
			var rows []schema.NameStats
			rows, err = s.openNames.of(ctx, part.kindHour)
			of = part.sum(current(rows, told.Names, hour, addressOfNames))
		}
		if err != nil {
			return Top{}, fmt.Errorf("read the counts of an hour by %s: %w", q.Kind, err)
		}
		sums.add(of.names, &of.others, time.Time{})
	}
	return sums.top(q, told.Missing), nil
}

// top returns the sums that a query asks for.
func (s *nameSums) top(q TopQuery, missing []string) Top {
	t := Top{Names: s.names(), Others: s.others, Complete: s.others == schema.Counts{}, Missing: missing}
	if q.Tenant != "" {
		t.Names = slices.DeleteFunc(t.Names, func(n schema.NameCounts) bool { return n.Tenant != q.Tenant })
		t.Others = schema.Counts{} // some of it is other tenants'
	}
	slices.SortFunc(t.Names, func(a, b schema.NameCounts) int {
		return cmp.Or(
			cmp.Compare(q.Order.of(&b.Counts), q.Order.of(&a.Counts)), cmp.Compare(b.Weight(), a.Weight()),
			cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name), slices.Compare(a.Job[:], b.Job[:]),
		)
	})
	for i := q.Limit; i < len(t.Names); i++ {
		t.Others.Add(&t.Names[i].Counts)
	}
	t.Names = t.Names[:min(q.Limit, len(t.Names))]
	return t
}

// ceilMinute returns the first minute that does not begin before t, in Unix seconds.
func ceilMinute(t time.Time) int64 {
	return t.Add(time.Minute - time.Nanosecond).Truncate(time.Minute).Unix()
}

// sum adds up the rows of the part.
func (p hourPart) sum(rows []schema.NameStats) hourNames {
	sums := nameSums{byKey: make(map[nameKey]*schema.NameCounts)}
	for i := range rows {
		r := &rows[i]
		if at := r.Minute.Unix(); p.first <= at && at < p.last {
			sums.add(r.Names, &r.Others, r.Minute)
		}
	}
	of := hourNames{others: sums.others}
	var rest schema.Counts
	of.names, rest = tally.Heaviest(sums.names(), namesOfHour)
	of.others.Add(&rest)
	return of
}

// readPart reads a part of an hour that is closed.
func (s *Stats) readPart(ctx context.Context, p hourPart) (hourNames, error) {
	rows, err := s.store.NameStats(ctx, p.kind, p.hour, time.Unix(p.first, 0))
	if err != nil {
		return hourNames{}, err
	}
	return p.sum(rows), nil
}

// readNames reads an hour.
func (s *Stats) readNames(ctx context.Context, at kindHour) ([]schema.NameStats, error) {
	return s.store.NameStats(ctx, at.kind, at.hour, time.Unix(int64(at.hour)*3600, 0))
}

// readOpen reads an hour that is not closed. While somebody looks that is every second, so only the last
// minutes are read each time, and all of them after openWhole.
func (s *Stats) readOpen(ctx context.Context, at kindHour) ([]schema.NameStats, error) {
	now := s.now()
	s.mu.Lock()
	was := s.opened[at]
	s.mu.Unlock()
	if now.Sub(was.whole) >= openWhole {
		was = openHour{whole: now, until: time.Unix(int64(at.hour)*3600, 0)}
	}
	rows, err := s.store.NameStats(ctx, at.kind, at.hour, was.until)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(was.rows, rows)
	is := openHour{whole: was.whole, until: now.Add(-hourCloses).Truncate(time.Minute)}
	n := slices.IndexFunc(all, func(r schema.NameStats) bool { return !r.Minute.Before(is.until) })
	if is.rows = all; n >= 0 {
		is.rows = all[:n:n]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.opened {
		if other.hour < at.hour-1 || other.hour > at.hour+1 {
			delete(s.opened, other)
		}
	}
	if s.opened[at] = is; weighNames(is.rows) > namesRemembered {
		delete(s.opened, at)
	}
	return all, nil
}

// openHour is what was read of an hour that is not closed.
type openHour struct {
	rows  []schema.NameStats // of minutes before until, by minute
	until time.Time
	whole time.Time // when all of it was read last
}

// weighNames returns how many names rows have.
func weighNames(rows []schema.NameStats) int {
	n := 1
	for i := range rows {
		n += len(rows[i].Names)
	}
	return n
}
