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
