package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// Minute is what the nodes counted in a minute, together.
type Minute struct {
	Minute                                           time.Time
	Due, Started, Succeeded, Failed, Missed, Retried int64
	Lateness                                         Lateness
}

// Lateness is how many first starts were how late, by class, in the order of classes.
type Lateness []schema.LatenessClass

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

// Stats reads the counts of minutes.
type Stats struct{ Store schema.StatsStore }

// Minutes returns the counts of all nodes together, from ≤ minute < to, by minute. Minutes without
// a count are left out. It reads an hour at a time: the caller bounds the window.
func (s Stats) Minutes(ctx context.Context, from, to time.Time) ([]Minute, error) {
	var all []Minute
	for hour := schema.StatsHour(from); hour <= schema.StatsHour(to.Add(-time.Nanosecond)); hour++ {
		rows, err := s.Store.Stats(ctx, hour)
		if err != nil {
			return nil, fmt.Errorf("read the counts of an hour: %w", err)
		}
		for _, r := range rows {
			if r.Minute.Before(from) || !r.Minute.Before(to) {
				continue
			}
			if len(all) == 0 || !all[len(all)-1].Minute.Equal(r.Minute) {
				all = append(all, Minute{Minute: r.Minute})
			}
			m := &all[len(all)-1]
			m.Due += r.Due
			m.Started += r.Started
			m.Succeeded += r.Succeeded
			m.Failed += r.Failed
			m.Missed += r.Missed
			m.Retried += r.Retried
			m.Lateness = m.Lateness.add(r.Lateness)
		}
	}
	return all, nil
}
