package bucketer

import (
	"sync"

	"carillon.dev/carillon/schema"
)

// maxPlaces bounds what Places remembers; beyond it all is forgotten.
const maxPlaces = 10_000

// Places remembers how far work on entries has come that did not end in one call, whose time is
// bounded. It is in memory: after a crash the work begins anew. The zero value is ready. Its methods
// may be called from any goroutine.
type Places struct {
	mu sync.Mutex
	at map[schema.EntryID]schema.EntryID
}

// Of returns how far the work on an entry has come; zero: it has not begun.
func (p *Places) Of(entry schema.EntryID) schema.EntryID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[entry]
}

// Set notes how far the work on an entry has come.
func (p *Places) Set(entry, at schema.EntryID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil || len(p.at) >= maxPlaces {
		p.at = make(map[schema.EntryID]schema.EntryID)
	}
	p.at[entry] = at
}

// Forget forgets an entry: the work on it has ended.
func (p *Places) Forget(entry schema.EntryID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, entry)
}
