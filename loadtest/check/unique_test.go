package check

import (
	"testing"
	"time"
)

// TestUniqueJobs: what is a fault of the jobs of one unique key, and what is none.
func TestUniqueJobs(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2030, 1, 1, 0, 0, s, 0, time.UTC) }
	ref := func(line int) Ref { return Ref{Source: "s", Line: line} }
	ask := func(line, requested int, key string) Ask {
		return Ask{Ref: ref(line), Unique: key, UniqueFor: 20 * time.Second, Requested: at(requested)}
	}
	made := func(line, s int, id string) Ack { return Ack{Ref: ref(line), ID: id, Status: 201, At: at(s)} }
	there := func(line, s int, id string) Ack {
		return Ack{Ref: ref(line), ID: id, Status: 200, At: at(s), Existing: true}
	}
	lost := func(line, s int) Ack { return Ack{Ref: ref(line), Status: 503, At: at(s)} }
	type runs map[string]int // the line that created each
	for _, c := range []struct {
		name               string
		asked              []Ask
		acks               []Ack
		runs               runs
		existing, faults   int
		unexpected, missed int
	}{
		{"one is there", []Ask{ask(1, 0, "k"), ask(2, 5, "k")}, []Ack{made(1, 1, "a"), there(2, 6, "a")}, runs{"a": 1}, 1, 0, 0, 0},
		{"after the window", []Ask{ask(1, 0, "k"), ask(2, 19, "k")}, []Ack{made(1, 1, "a"), made(2, 20, "b")}, runs{"a": 1, "b": 2}, 0, 0, 0, 0},
		{"within the window", []Ask{ask(1, 0, "k"), ask(2, 18, "k")}, []Ack{made(1, 1, "a"), made(2, 19, "b")}, runs{"a": 1, "b": 2}, 0, 1, 0, 0},
		{"at once", []Ask{ask(1, 0, "k"), ask(2, 0, "k")}, []Ack{made(1, 1, "a"), made(2, 1, "b")}, runs{"a": 1, "b": 2}, 0, 1, 0, 0},
		{"other keys", []Ask{ask(1, 0, "k"), ask(2, 0, "l")}, []Ack{made(1, 1, "a"), made(2, 1, "b")}, runs{"a": 1, "b": 2}, 0, 0, 0, 0},
		{"none is unique", []Ask{ask(1, 0, ""), ask(2, 0, "")}, []Ack{made(1, 1, "a"), made(2, 1, "b")}, runs{"a": 1, "b": 2}, 0, 0, 0, 0},
		{"the answer to the first was lost", []Ask{ask(1, 0, "k"), ask(2, 5, "k")}, []Ack{lost(1, 1), there(2, 6, "a")}, runs{"a": 1}, 1, 0, 0, 0},
		{"it was lost, and there is another", []Ask{ask(1, 0, "k"), ask(2, 5, "k")}, []Ack{lost(1, 1), made(2, 6, "b")}, runs{"a": 1, "b": 2}, 0, 1, 0, 0},
		{"it has no time, so nothing is sure", []Ask{ask(1, 0, "k"), ask(2, 5, "k")}, []Ack{{Ref: ref(1)}, made(2, 6, "b")}, runs{"a": 1, "b": 2}, 0, 0, 0, 0},
		{"of another key", []Ask{ask(1, 0, "k"), ask(2, 5, "l")}, []Ack{made(1, 1, "a"), there(2, 6, "a")}, runs{"a": 1}, 1, 1, 0, 0},
		{"it is there, and nowhere", []Ask{ask(1, 0, "k")}, []Ack{there(1, 6, "a")}, runs{}, 0, 0, 0, 1},
		{"its own request again", []Ask{ask(1, 0, "k")}, []Ack{lost(1, 1), there(1, 6, "a")}, runs{"a": 1}, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := History{Asked: c.asked, Acks: c.acks, SeenAll: true}
			for id, line := range c.runs {
				from := at(line + 30)
				r := Reading{Status: Found, At: at(59), Run: Run{ID: id, State: Succeeded, DueAt: from, StartedAt: from, FinishedAt: from, Attempts: []Attempt{
					{Number: 1, StartedAt: from, FinishedAt: from, Outcome: OutcomeSucceeded, StatusCode: 200},
				}}}
				h.Runs = append(h.Runs, Observation{ID: id, Ref: ref(line), First: r, Second: r})
				h.Seen = append(h.Seen, Sighting{Run: id, Ref: ref(line), Attempt: 1, Due: from, At: from, End: from, Status: 200})
			}
			for _, a := range c.acks {
				if _, ok := c.runs[a.ID]; !ok && a.ID != "" {
					h.Runs = append(h.Runs, Observation{ID: a.ID, First: Reading{Status: Absent}, Second: Reading{Status: Absent}})
				}
			}
			rep, err := Judge(h)
			if err != nil || rep.Existing != c.existing || rep.NotUnique != c.faults || rep.Unexpected != c.unexpected || rep.Missed != c.missed || rep.Failed() != (c.faults+c.missed > 0) {
				t.Errorf("Judge: %d existing, %d not unique, %d unexpected, %d missed, failed %t, %v; want %+v: %+v", rep.Existing, rep.NotUnique, rep.Unexpected, rep.Missed, rep.Failed(), err, c, rep.Faults)
			}
			if c.faults == 0 && rep.Asked != rep.Acknowledged+rep.Refused+rep.Unknown+rep.Existing {
				t.Errorf("%d asked, and %d acknowledged, %d refused, %d unknown, %d existing", rep.Asked, rep.Acknowledged, rep.Refused, rep.Unknown, rep.Existing)
			}
		})
	}
}
