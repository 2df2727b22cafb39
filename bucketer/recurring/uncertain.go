package recurring

import (
	"sync"

	"carillon.dev/carillon/schema"
)

// maxUncertain bounds the ids kept of rows whose writing failed; beyond it the oldest knowledge
// goes, and mending takes its place.
const maxUncertain = 10_000

// uncertainRows are the ids of rows that may be held since too late for their sweep.
type uncertainRows struct {
	mu  sync.Mutex
	ids map[schema.EntryID]struct{}
}

func (u *uncertainRows) add(rows []schema.Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil || len(u.ids) > maxUncertain {
		u.ids = make(map[schema.EntryID]struct{})
	}
	for i := range rows {
		u.ids[rows[i].ID] = struct{}{}
	}
}

func (u *uncertainRows) has(id schema.EntryID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.ids[id]
	return ok
}

func (u *uncertainRows) drop(rows []schema.Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range rows {
		delete(u.ids, rows[i].ID)
	}
}
