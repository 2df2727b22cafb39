package schematest

import (
	"context"
	"maps"
	"sync"

	"carillon.dev/carillon/schema"
)

// Tally is how often a method was called, and for how many rows: those of a batch that is written,
// the limit or the number of ids of a read, 1 for everything else.
type Tally struct {
	Calls int
	Rows  int
}

// CountingStore is a store that counts its calls.
type CountingStore struct {
	around

	mu      sync.Mutex
	tallies map[string]Tally
}

// Counting returns store with its calls counted, also those that fail.
func Counting(store schema.Store) *CountingStore {
	c := &CountingStore{tallies: map[string]Tally{}}
	c.around = around{inner: store, wrap: c.count}
	return c
}

func (c *CountingStore) count(ctx context.Context, made call) error {
	c.mu.Lock()
	t := c.tallies[made.op]
	c.tallies[made.op] = Tally{t.Calls + 1, t.Rows + made.rows}
	c.mu.Unlock()
	return made.do(ctx)
}

// Tally returns what was counted of a method, by its name ("PutEntries").
func (c *CountingStore) Tally(op string) Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tallies[op]
}

// Tallies returns what was counted, by method. Methods that were not called are absent.
func (c *CountingStore) Tallies() map[string]Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tallies)
}

// Reset forgets what was counted.
func (c *CountingStore) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tallies)
}
