package shardstate

import (
	"slices"
	"time"

	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/window"
	"carillon.dev/carillon/schema"
)

const (
	// MaxHeld bounds the envelopes that a shard holds on time, and as many overdue.
	MaxHeld = 2000
	// MinHeld is what a flow, or a shard, may hold in any case.
	MinHeld = 64
	// flowShare: a flow may hold so many times what is left free: 4/5 if it is alone.
	flowShare = 4
)

// Side tells whether entries wait on time, or overdue: published after all that is on time.
type Side uint8

// The sides of a flow.
const (
	OnTime Side = iota
	Overdue
)

// FlowKey names a flow.
type FlowKey struct {
	Tenant   string
	Priority schema.Priority
	Side     Side
}

// Flow is what a State remembers of a flow.
type Flow struct {
	FlowKey
	waiting int // entries in memory that wait for publication …
	queued  int // … of which so many wait for budget

	spilled bool             // rows were left for a later read …
	after   schema.EntryID   // … all those after this id that do not wait
	missed  []schema.EntryID // spilled inside a page under way, which may miss them
	reread  schema.EntryID   // up to here what grew too old in memory was read again

	last    time.Time // the latest due time of an entry that waited on time
	refused time.Time // when the budget last refused one
	sent    window.Counter
}

// Waiting returns how many entries of the flow wait in memory.
func (f *Flow) Waiting() int { return f.waiting }

// Spilled reports whether the row id is left for a later read. A nil flow has no such rows.
func (f *Flow) Spilled(id schema.EntryID) bool {
	return f != nil && f.spilled && id.Compare(f.after) > 0
}

// AnySpilled reports whether rows of the flow are left for a later read.
func (f *Flow) AnySpilled() bool { return f.spilled }

// After returns the id after which rows are spilled.
func (f *Flow) After() schema.EntryID { return f.after }

// Reread reports whether the row id was read again already for being too old.
func (f *Flow) Reread(id schema.EntryID) bool { return id.Compare(f.reread) <= 0 }

// Refused notes that the budget refused an entry of the flow.
func (f *Flow) Refused(now time.Time) { f.refused = now }

// Sent notes that an entry of the flow was published.
func (f *Flow) Sent(now time.Time) { f.sent.Add(now) }

// readAhead is how many entries may wait: while the budget refuses some, as many as were published
// lately.
func (f *Flow) readAhead(now time.Time) int {
	if f.queued > 0 || now.Sub(f.refused) < window.Span {
		return max(f.sent.Recent(now), MinHeld)
	}
	return MaxHeld
}

// Flows are the flows of a shard.
type Flows struct {
	all     map[FlowKey]*Flow
	spilled map[*Flow]struct{} // those with spilled rows
	page    page               // the page of spilled rows that is being read
	waiting [2]int             // entries that wait in memory, by Side
}

// page is a range of ids: after `after`, up to `to`. The zero page has none.
type page struct{ after, to schema.EntryID }

func (p page) has(id schema.EntryID) bool {
	return id.Compare(p.after) > 0 && id.Compare(p.to) <= 0
}

func newFlows() Flows {
	return Flows{all: make(map[FlowKey]*Flow), spilled: make(map[*Flow]struct{})}
}

// get returns a flow, and makes it.
func (fs *Flows) get(key FlowKey) *Flow {
	f, ok := fs.all[key]
	if !ok {
		f = &Flow{FlowKey: key}
		fs.all[key] = f
	}
	return f
}

// Of returns the flow of an entry.
func (fs *Flows) Of(e *schema.Entry, side Side) *Flow {
	return fs.get(FlowKey{e.Spec.Tenant, e.Spec.Priority.Or(), side})
}

// Waiting returns how many entries wait in memory.
func (fs *Flows) Waiting(side Side) int { return fs.waiting[side] }

func (fs *Flows) count(f *Flow, n int) {
	f.waiting += n
	fs.waiting[f.Side] += n
}

// AnySpilled reports whether some flow has spilled rows.
func (fs *Flows) AnySpilled() bool { return len(fs.spilled) > 0 }

// Spill leaves the row id of f, and the rows after it, for a later read. A page under way may miss
// the row, so it is remembered until that page is through.
func (fs *Flows) Spill(f *Flow, id schema.EntryID) {
	if fs.page.has(id) {
		f.missed = append(f.missed, id)
	}
	if f.Spilled(id) {
		return
	}
	f.spilled, f.after = true, progress.Before(id)
	fs.spilled[f] = struct{}{}
}

// caughtUp notes that all spilled rows of f were found.
func (fs *Flows) caughtUp(f *Flow) {
	f.spilled, f.after, f.missed = false, schema.EntryID{}, nil
	delete(fs.spilled, f)
}

// NextToResume returns the flow whose spilled rows are to be read again first: the oldest among the
// flows with half of their room free. limit is how many entries may wait, front up to where all
// rows were found once, by Side. It returns nil if there is none.
func (fs *Flows) NextToResume(limit [2]int, front [2]schema.EntryID, now time.Time) (next *Flow) {
	for f := range fs.spilled {
		free := max(limit[f.Side]-fs.waiting[f.Side], 0)
		if room := min(f.readAhead(now), flowShare*free); room == 0 || 2*f.waiting > room {
			continue
		}
		if f.after.Compare(front[f.Side]) >= 0 {
			continue // the scan or the sweep has not come there yet
		}
		if next == nil || f.after.Compare(next.after) < 0 {
			next = f
		}
	}
	return next
}

// BeginPage notes that the spilled rows after start, up to end, are being read.
func (fs *Flows) BeginPage(start, end schema.EntryID) {
	for f := range fs.spilled {
		f.missed = nil
	}
	fs.page = page{start, end}
}

// CutPage notes that the page ends at last: it was full.
func (fs *Flows) CutPage(last schema.EntryID) { fs.page.to = last }

// AbortPage notes that no page is being read.
func (fs *Flows) AbortPage() { fs.page = page{} }

// EndPage notes how far each flow has come with a page of spilled rows, after start and up to end,
// that were taken by room. front is up to where all rows were found once; has says which ids are
// known.
func (fs *Flows) EndPage(room *Room, start, end, front schema.EntryID, has func(schema.EntryID) bool) {
	fs.page = page{}
	for f := range fs.spilled {
		r := room.flows[f.FlowKey]
		if r == nil || f.Side != room.side || !r.spilled || f.after != r.after || f.after.Compare(start) < 0 || f.after.Compare(end) > 0 {
			continue // the page was not read for it, or it is to be read again from before
		}
		f.missed = slices.DeleteFunc(f.missed, has)
		switch {
		case r.full:
			f.after = progress.Before(r.first)
		case end.Compare(front) >= 0 && len(f.missed) == 0:
			fs.caughtUp(f)
		default:
			f.after = end
		}
		for _, id := range f.missed {
			fs.Spill(f, id)
		}
		f.missed = nil
	}
}

// OldestSpilled returns the due times of the oldest spilled rows, by priority; zero = none are.
func (fs *Flows) OldestSpilled() (oldest [4]time.Time) {
	for f := range fs.spilled {
		i := f.Priority.Rank()
		if at := f.after.Time(); oldest[i].IsZero() || at.Before(oldest[i]) {
			oldest[i] = at
		}
	}
	return oldest
}

// swept forgets the flows of which nothing waits and nothing was due since t.
func (fs *Flows) swept(t time.Time) {
	for key, f := range fs.all {
		if f.waiting == 0 && !f.spilled && f.last.Before(t) {
			delete(fs.all, key)
		}
	}
}

// below returns last, or the bucket before the first one with spilled rows.
func (fs *Flows) below(last schema.Bucket) schema.Bucket {
	for f := range fs.spilled {
		last = min(last, f.after.Bucket()-1)
	}
	return last
}
