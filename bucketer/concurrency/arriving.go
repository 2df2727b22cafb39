package concurrency

import (
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// absentRows are the entries of places in wait lists that were not there, with when that was seen
// first. The zero value is ready for use.
type absentRows struct {
	mu    sync.Mutex
	since map[schema.EntryID]time.Time
}

// mostAbsent bounds what is kept in mind. Beyond it all is forgotten: then places stay for longer.
const mostAbsent = 10_000

// seen notes that an entry is not there, and returns since when it is known.
func (a *absentRows) seen(id schema.EntryID, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == nil || len(a.since) >= mostAbsent {
		a.since = make(map[schema.EntryID]time.Time)
	}
	since, ok := a.since[id]
	if !ok {
		since = now
		a.since[id] = now
	}
	return since
}

// forget is for an entry whose place has been taken out.
func (a *absentRows) forget(id schema.EntryID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, id)
}

// mayCome reports whether the entry of a place in a wait list, which is not there, may still come.
func (l *WaitLists) mayCome(w schema.Waiter) bool {
	now := l.now()
	since := l.absent.seen(w.Entry, now)
	return now.Before(w.Entry.Time().Add(rowsWithin)) || now.Sub(since) < absentFor
}
