package dispatcher

import (
	"time"

	"carillon.dev/carillon/schema"
)

// flowShare is how large a part of what is free a flow may fill: of n that want all there is, each has flowShare / (1 + n · flowShare)
// of the whole, and there is always some left for a newcomer (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998).
const flowShare = 4

// flowKey names a flow: what waits of a tenant and priority in a shard, on time or behind its time.
type flowKey struct {
	tenant   string
	priority schema.Priority
	behind   bool
}

// flow is what a book remembers of a flow. When as many of its entries wait in memory as may, its rows are passed over, and read again
// when there is room: so a flow with much to do costs bounded memory, and hides nobody else's rows behind its own.
type flow struct {
	flowKey
	waiting int              // entries in memory that wait for publication
	over    bool             // its rows were passed over …
	after   schema.EntryID   // … all those after this one that do not wait
	missed  []schema.EntryID // passed over while a page in which they lie was being read: it may miss them
	last    time.Time        // the latest due time that was met on time
	lined   int              // of those that wait, the ones in their tenant's line
	reread  schema.EntryID   // up to here what was too old when its turn came has been read again

	refused time.Time // when the budget last refused one
	sent    tally
}

// flow returns a flow, and makes it.
func (b *book) flow(tenant string, p schema.Priority, behind bool) *flow {
	key := flowKey{tenant, p, behind}
	f, ok := b.flows[key]
	if !ok {
		f = &flow{flowKey: key}
		b.flows[key] = f
	}
	return f
}

// flowOf returns the flow of an entry.
func (b *book) flowOf(e *schema.Entry, behind bool) *flow {
	return b.flow(e.Spec.Tenant, e.Spec.Priority.Or(), behind)
}

// pass notes that the row id of f was passed over, and so is what comes after it. A page that is being read may
// miss it, so it is kept in mind until that is through.
func (b *book) pass(f *flow, id schema.EntryID) {
	if b.reading.has(id) {
		f.missed = append(f.missed, id)
	}
	if f.passes(id) {
		return
	}
	f.over, f.after = true, before(id)
	b.passed[f] = struct{}{}
}

// caughtUp notes that all rows of f that were passed over have been met.
func (b *book) caughtUp(f *flow) {
	f.over, f.after, f.missed = false, schema.EntryID{}, nil
	delete(b.passed, f)
}

// passes reports whether the row id of f, if f is known, is one of those that are passed over.
func (f *flow) passes(id schema.EntryID) bool {
	return f != nil && f.over && id.Compare(f.after) > 0
}

// appetite is how many entries of the flow may wait: while the budget refuses some, as many as were published lately, since more would
// be too old before its turn.
func (f *flow) appetite(now time.Time) int {
	if f.lined > 0 || now.Sub(f.refused) < appetiteSpan {
		return max(f.sent.recent(now), minHeld)
	}
	return maxHeld
}

// admission says of rows, in the order in which they are read, for which there is room. It is made by the owner of a book, and used by one
// worker.
type admission struct {
	behind bool
	free   int
	flows  map[flowKey]*gate
}

// eager leaves appetites out of it: there is room for as much as flows may hold.
func (a *admission) eager() *admission {
	for _, g := range a.flows {
		g.room = maxHeld - g.held
	}
	return a
}

// gate is an admission's view of a flow.
type gate struct {
	over  bool
	after schema.EntryID // as it was when the admission was made
	room  int            // of its appetite
	held  int            // what waits

	full  bool           // one was refused …
	first schema.EntryID // … this one first
}

// admission makes one for the flows on time or for those behind; limit bounds what may wait in memory of all of them.
func (b *book) admission(behind bool, limit int, now time.Time) *admission {
	a := &admission{behind: behind, free: max(limit-b.waiting[side(behind)], 0), flows: make(map[flowKey]*gate)}
	for key, f := range b.flows {
		if key.behind == behind && (f.waiting > 0 || f.over) {
			a.flows[key] = &gate{over: f.over, after: f.after, room: f.appetite(now) - f.waiting, held: f.waiting}
		}
	}
	return a
}

func (a *admission) gate(e *schema.Entry) *gate {
	key := flowKey{e.Spec.Tenant, e.Spec.Priority.Or(), a.behind}
	g, ok := a.flows[key]
	if !ok {
		g = &gate{room: maxHeld}
		a.flows[key] = g
	}
	return g
}

// admit reports whether there is room for a row that is met for the first time.
func (a *admission) admit(e *schema.Entry) bool {
	g := a.gate(e)
	if g.over && e.ID.Compare(g.after) > 0 {
		return false
	}
	return a.take(g, e.ID)
}

// resume reports whether there is room for a row that was passed over.
func (a *admission) resume(e *schema.Entry) bool {
	g := a.gate(e)
	return g.over && e.ID.Compare(g.after) > 0 && a.take(g, e.ID)
}

func (a *admission) take(g *gate, id schema.EntryID) bool {
	if g.full || g.room <= 0 || g.held >= flowShare*a.free {
		if !g.full {
			g.full, g.first = true, id
		}
		return false
	}
	g.room--
	g.held++
	a.free--
	return true
}
