package recurring

import (
	"sync"

	"carillon.dev/carillon/schema"
)

// maxUncertain bounds the remembered ids of rows whose writing failed. Beyond it the oldest are
// forgotten, and Mend finds the rows.
const maxUncertain = 10_000

// uncertainRows are the ids of rows that may have been held too late for their sweep.
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
