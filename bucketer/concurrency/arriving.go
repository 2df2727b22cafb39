package concurrency

import (
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// rowsWithin is how long the row of a run may come after its place in a wait list, where there
	// are regions: from when it was first seen that it is not there. Rows of another region come
	// one by one, in any order, and after a cut by hints, which take minutes.
	rowsWithin = 10 * time.Minute
	// mostAbsent bounds absentRows. Those beyond it keep their places for longer.
	mostAbsent = 10_000
)

// absentRows are the entries of places in wait lists that were not there, with when that was seen
// first.
type absentRows struct {
	mu    sync.Mutex
	since map[schema.EntryID]time.Time
}

// seen notes that an entry is not there, and returns since when it is known.
func (a *absentRows) seen(id schema.EntryID, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, ok := a.since[id]
	if !ok {
		if len(a.since) >= mostAbsent {
			for other := range a.since { // any
				delete(a.since, other)
				break
			}
		}
		since = now
		a.since[id] = now
	}
	return since
}

// forget is for an entry that is there, or whose place has been taken out.
func (a *absentRows) forget(id schema.EntryID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, id)
}

// mayCome reports whether the entry of a place in a wait list, which is not there, may still come.
func (a *absentRows) mayCome(id schema.EntryID, regions bool, now time.Time) bool {
	return regions && now.Sub(a.seen(id, now)) < rowsWithin
}

// serves returns nil while our region serves the limits of a shard. In another one nobody is woken:
// what that sees of a list, and of the runs in it, may be old.
func serves(r *bucketer.Regions, shard schema.Shard) error {
	if r == nil {
		return nil
	}
	_, err := r.Served(shard)
	return err
}
