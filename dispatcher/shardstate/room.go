package shardstate

import (
	"time"

	"carillon.dev/carillon/schema"
)

// Room says for which rows there is room in memory, in the order in which they are read. The owner
// of a State makes it; one worker uses it.
type Room struct {
	side  Side
	free  int
	flows map[FlowKey]*flowRoom
}

// flowRoom is a Room's view of a flow.
type flowRoom struct {
	spilled bool
	after   schema.EntryID // as it was when the Room was made
	left    int            // of what it may read ahead
	held    int            // what waits

	full  bool           // a row was refused …
	first schema.EntryID // … this one first
}

// Room returns the room of the flows of a side; limit bounds what may wait of all of them.
func (fs *Flows) Room(side Side, limit int, now time.Time) *Room {
	r := &Room{side: side, free: max(limit-fs.waiting[side], 0), flows: make(map[FlowKey]*flowRoom)}
	for key, f := range fs.all {
		if key.Side == side && (f.waiting > 0 || f.spilled) {
			r.flows[key] = &flowRoom{spilled: f.spilled, after: f.after, left: f.readAhead(now) - f.waiting, held: f.waiting}
		}
	}
	return r
}

// IgnoreReadAhead lets every flow fill its share of the room, whatever was published of it lately.
func (r *Room) IgnoreReadAhead() *Room {
	for _, f := range r.flows {
		f.left = MaxHeld - f.held
	}
	return r
}

func (r *Room) of(e *schema.Entry) *flowRoom {
	key := FlowKey{e.Spec.Tenant, e.Spec.Priority.Or(), r.side}
	f, ok := r.flows[key]
	if !ok {
		f = &flowRoom{left: MaxHeld}
		r.flows[key] = f
	}
	return f
}

// Spilled reports whether a row was spilled: its flow has it read again.
func (r *Room) Spilled(e *schema.Entry) bool {
	f := r.of(e)
	return f.spilled && e.ID.Compare(f.after) > 0
}

// Admit reports whether there is room for a row that was not spilled, and takes it.
func (r *Room) Admit(e *schema.Entry) bool {
	f := r.of(e)
	if f.spilled && e.ID.Compare(f.after) > 0 {
		return false
	}
	return r.take(f, e.ID)
}

// AdmitSpilled reports whether there is room for a row that was spilled, and takes it.
func (r *Room) AdmitSpilled(e *schema.Entry) bool {
	f := r.of(e)
	return f.spilled && e.ID.Compare(f.after) > 0 && r.take(f, e.ID)
}

func (r *Room) take(f *flowRoom, id schema.EntryID) bool {
	if f.full || f.left <= 0 || f.held >= flowShare*r.free {
		if !f.full {
			f.full, f.first = true, id
		}
		return false
	}
	f.left--
	f.held++
	r.free--
	return true
}
