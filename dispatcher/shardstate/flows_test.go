package shardstate

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// row returns a row of a tenant that is due n ms after origin.
func row(tenant string, n int) schema.Entry {
	return schema.Entry{ID: schema.MakeEntryID(origin.Add(time.Duration(n)*time.Millisecond), 1, uint64(tenant[0])), Spec: schema.Spec{Tenant: tenant}}
}

// read reads rows as a page does: those with room are added, the others spilled.
func read(s *State, rows []schema.Entry, limit int) (added int) {
	room := s.Flows.Room(OnTime, limit, origin)
	for i := range rows {
		if e := &rows[i]; room.Admit(e) {
			s.Find(e.ID)
			s.Add(&queue.Envelope{Entry: *e})
			added++
		} else {
			s.Flows.Spill(s.Flows.Of(e, OnTime), e.ID)
		}
	}
	return added
}

// rows returns n rows of a tenant, due one ms apart from the ms from on.
func rows(tenant string, from, n int) []schema.Entry {
	all := make([]schema.Entry, n)
	for i := range all {
		all[i] = row(tenant, from+i)
	}
	return all
}

// TestRoomIsShared: of the room, one flow gets four fifths, and each of n equal ones 4 / (1 + 4n);
// the first of them gets no more than that, and a newcomer always gets some.
func TestRoomIsShared(t *testing.T) {
	const limit = 1000
	for _, c := range []struct {
		name  string
		flows []int // rows of each flow, read one flow after the other
		want  []int
	}{
		{"one that wants little", []int{10}, []int{10}},
		{"one that wants all", []int{2000}, []int{800}},
		{"a newcomer beside it", []int{2000, 50}, []int{800, 50}},
		{"another that wants all", []int{2000, 2000}, []int{800, 160}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New()
			for i, n := range c.flows {
				if got := read(s, rows(string(rune('a'+i)), 0, n), limit); got != c.want[i] {
					t.Errorf("flow %d got %d places, want %d", i, got, c.want[i])
				}
			}
		})
	}
}

// TestSpilledRowsAreReadInOrder: a row after the first spilled one is refused although there is
// room, is taken once it is read again, and holds the cursors back until then.
func TestSpilledRowsAreReadInOrder(t *testing.T) {
	s := New()
	all := rows("a", 0, 200)
	if got := read(s, all[:100], 100); got != 80 {
		t.Fatalf("%d of 100 rows were taken, want 80", got)
	}
	for i := range 80 {
		s.Done(all[i].ID)
	}
	if got := read(s, all[100:], 1000); got != 0 {
		t.Fatalf("%d rows after the spilled ones were taken, want none", got)
	}
	bucket := all[0].ID.Bucket()
	if got := s.Settled(bucket + 9); got != bucket-1 {
		t.Errorf("Settled = %d, want %d, before the spilled rows", got, bucket-1)
	}

	front := [2]schema.EntryID{OnTime: all[199].ID}
	f := s.Flows.NextToResume([2]int{OnTime: 1000}, front, origin)
	if f == nil || f.Tenant != "a" || !f.Spilled(all[80].ID) || f.Spilled(all[79].ID) {
		t.Fatalf("NextToResume = %+v, want the flow, spilled from row 80 on", f)
	}
	start, end := f.After(), all[199].ID
	s.Flows.BeginPage(start, end)
	room := s.Flows.Room(OnTime, 1000, origin)
	for i := 80; i < 200; i++ {
		if !room.AdmitSpilled(&all[i]) {
			t.Fatalf("row %d is refused when it is read again", i)
		}
		s.Find(all[i].ID)
	}
	s.Flows.EndPage(room, start, end, front[OnTime], s.Has)
	if s.Flows.AnySpilled() || s.Settled(bucket+9) != bucket+9 {
		t.Errorf("spilled: %v, Settled = %d, want nothing spilled, and %d", s.Flows.AnySpilled(), s.Settled(bucket+9), bucket+9)
	}
}

// TestARowSpilledInsideAPageIsReadAgain: a page under way may miss it.
func TestARowSpilledInsideAPageIsReadAgain(t *testing.T) {
	s := New()
	all := rows("a", 0, 100)
	f := s.Flows.Of(&all[0], OnTime)
	s.Flows.Spill(f, all[0].ID)
	start, end := f.After(), all[99].ID
	s.Flows.BeginPage(start, end)
	room := s.Flows.Room(OnTime, 1000, origin)
	s.Flows.Spill(f, all[50].ID) // by a hint
	s.Flows.EndPage(room, start, end, end, s.Has)
	if !f.Spilled(all[50].ID) || f.Spilled(all[49].ID) {
		t.Errorf("spilled after %v, want from row 50 on", f.After().Time())
	}
}

// TestAFlowReadsAheadWhatItPublishes: while the budget refuses it, no more than MinHeld or what was
// published lately.
func TestAFlowReadsAheadWhatItPublishes(t *testing.T) {
	for _, c := range []struct {
		name    string
		refused bool
		sent    int
		want    int
	}{
		{"with budget", false, 0, 800},
		{"refused, nothing was published", true, 0, MinHeld},
		{"refused, some was published", true, 300, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New()
			all := rows("a", 0, 1000)
			f := s.Flows.Of(&all[0], OnTime)
			f.spilled = true // a Room knows flows of which something waits, or is spilled
			f.after = all[999].ID
			if c.refused {
				f.Refused(origin)
			}
			for range c.sent {
				f.Sent(origin)
			}
			if got := read(s, all, 1000); got != c.want {
				t.Errorf("%d rows were taken, want %d", got, c.want)
			}
		})
	}
}

func find(s *State, id schema.EntryID) *Pending {
	p, _ := s.Pending(id)
	return p
}

// TestGiveUpSpillsTheFlow: what waits of a flow is forgotten and read again, with the tickets of
// what was queued; entries of others, and those that may not be reread, stay.
func TestGiveUpSpillsTheFlow(t *testing.T) {
	s := New()
	mine, others := rows("a", 0, 4), rows("b", 0, 2)
	read(s, mine, 1000)
	read(s, others, 1000)
	due := func() *Pending { return s.Due(origin.Add(time.Second), &atLead) }
	tickets := make(map[schema.EntryID]*depth.Ticket)
	for range 3 { // a 0, b 0, a 1: by due time and id
		p := due()
		tickets[p.ID] = &depth.Ticket{ID: p.ID}
		s.Queue(p, tickets[p.ID])
	}
	p := due()
	s.Take(p) // b 1
	s.Granted(find(s, mine[0].ID))
	p = find(s, mine[0].ID)
	f, keep := p.Flow, mine[3].ID
	got := s.GiveUp(p, func(p *Pending) bool { return p.ID != keep })
	if want := tickets[mine[1].ID]; len(got) != 1 || got[0] != want {
		t.Errorf("GiveUp = %v, want the ticket of the one that was queued", got)
	}
	var open []schema.EntryID
	for p := range s.All() {
		open = append(open, p.ID)
	}
	slices.SortFunc(open, schema.EntryID.Compare)
	if want := []schema.EntryID{others[0].ID, others[1].ID, keep}; !slices.Equal(open, want) {
		t.Errorf("pending are %v, want %v", open, want)
	}
	if !f.Reread(p.ID) || !f.Spilled(p.ID) {
		t.Error("what was given up is not spilled, or not noted as read again")
	}
}
