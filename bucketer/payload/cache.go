package payload

import "sync"

// cacheNodes bounds the values of all schemas that a Cache keeps: about 50 MB at the very most.
const cacheNodes = 50_000

// Cache keeps compiled schemas by their text, so that a task that changes has its new one at once.
// The zero Cache is ready.
type Cache struct {
	mu    sync.Mutex
	known map[string]*Schema
	nodes int
}

// Schema returns the compiled schema of a text; errors are those of Compile.
func (c *Cache) Schema(text []byte) (*Schema, error) {
	c.mu.Lock()
	s := c.known[string(text)]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := Compile(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.known[string(text)]; old != nil { // compiled by another meanwhile
		return old, nil
	}
	if c.known == nil || c.nodes+s.nodes > cacheNodes {
		c.known, c.nodes = make(map[string]*Schema), 0
	}
	c.known[string(text)] = s
	c.nodes += s.nodes
	return s, nil
}
