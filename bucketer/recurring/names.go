package recurring

import (
	"sync"

	"carillon.dev/carillon/schema"
)

// maxNames bounds the names that a nameCache knows; beyond it all are forgotten.
const maxNames = 10_000

// nameCache remembers which job had a name. A name moves on only when its job has ended: so it is right
// as long as that job says that it has not.
type nameCache struct {
	mu    sync.Mutex
	known map[jobName]schema.JobID
}

type jobName struct{ tenant, name string }

func (c *nameCache) of(n jobName) (schema.JobID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.known[n]
	return id, ok
}

func (c *nameCache) put(n jobName, id schema.JobID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxNames {
		clear(c.known)
	}
	c.known[n] = id
}

// keyEntry returns the id under which a key is registered for a job: that of an entry of the same
// time, shard and hash. Only a creation has a body of the same hash, so the id is never taken for a
// run's.
func keyEntry(id schema.JobID) schema.EntryID {
	e := schema.EntryID(id)
	return schema.MakeEntryID(e.Time(), e.Shard(), e.Hash())
}

// keyJob is the inverse of keyEntry.
func keyJob(e schema.EntryID) schema.JobID { return schema.MakeJobID(e.Time(), e.Shard(), e.Hash()) }
