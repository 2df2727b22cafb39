package check_test

import (
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A history of a power cut: of five jobs one was acknowledged long before it and ran after it, one
// ran in the last seconds before it and again afterwards, one was acknowledged in the last seconds
// and is gone, one was acknowledged then and is there, and one, acknowledged long before, is gone.
func TestForgiveOnlyWhatALossExplains(t *testing.T) {
	cut := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	loss := check.Loss{From: cut.Add(-10 * time.Second), Cut: cut}
	ref := func(line int) check.Ref { return check.Ref{Source: "s", Line: line} }
	id := func(line int) string { return fmt.Sprintf("run-%d", line) }
	found := func(line int) check.Reading {
		return check.Reading{Status: check.Found, Run: check.Run{ID: id(line), State: check.Succeeded}}
	}
	var h check.History
	add := func(line int, acked time.Duration, second check.Reading, calls ...time.Duration) {
		h.Asked = append(h.Asked, check.Ask{Ref: ref(line), Key: id(line)})
		h.Acks = append(h.Acks, check.Ack{Ref: ref(line), ID: id(line), Status: 201, At: cut.Add(acked)})
		h.Runs = append(h.Runs, check.Observation{ID: id(line), Ref: ref(line), First: second, Second: second})
		for _, at := range calls {
			h.Seen = append(h.Seen, check.Sighting{Run: id(line), Ref: ref(line), Attempt: 1, At: cut.Add(at), End: cut.Add(at), Status: 200})
		}
	}
	add(1, -time.Minute, found(1), 20*time.Second)
	add(2, -time.Minute, found(2), -5*time.Second, 20*time.Second)
	add(3, -4*time.Second, check.Reading{Status: check.Absent})
	add(4, -4*time.Second, found(4), 20*time.Second)
	add(5, -time.Minute, check.Reading{Status: check.Absent})
	h.SeenAll = true

	got := h.Forgive([]check.Loss{loss})
	want := check.Forgiven{Acknowledged: 2, Lost: 1, Oldest: 4, Repeatable: 1, Repeated: 1}
	if got != want {
		t.Errorf("Forgive = %+v, want %+v", got, want)
	}
	rep, err := check.Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Acknowledged != 3 || rep.Done != 2 || rep.Missed != 1 || rep.Unknown != 1 || rep.UnknownRan != 0 || rep.Unexpected != 0 || !rep.Failed() {
		t.Errorf("Judge = %+v, want line 5 missed, line 3 unknown and nothing else", rep)
	}
}

// TestForgiveASecondJobOfARegionThatWasCutOff: a request with a key that a region took in and did
// not answer, and that was sent again, is two jobs. One run more is forgiven, then and there.
func TestForgiveASecondJobOfARegionThatWasCutOff(t *testing.T) {
	cut := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	region := check.Loss{From: cut.Add(-10 * time.Second), Cut: cut, Region: true}
	for _, c := range []struct {
		name  string
		loss  check.Loss
		key   string
		acked time.Duration // after the cut
		more  int           // runs that nobody acknowledged
		want  int           // of them are unexpected
	}{
		{"acknowledged by the next region", region, "k", 20 * time.Second, 1, 0},
		{"acknowledged while it was cut off", region, "k", -5 * time.Second, 1, 0},
		{"a third job", region, "k", 20 * time.Second, 2, 1},
		{"acknowledged before", region, "k", -11 * time.Second, 1, 1},
		{"acknowledged long after", region, "k", 61 * time.Second, 1, 1},
		{"without a key", region, "", 20 * time.Second, 1, 1},
		{"a power cut", check.Loss{From: region.From, Cut: region.Cut}, "k", 20 * time.Second, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := check.History{
				SeenAll: true,
				Asked:   []check.Ask{{Ref: cutRef, Key: c.key, At: cut.Add(2 * time.Minute)}},
				Acks:    []check.Ack{{Ref: cutRef, ID: "run", Status: 201, At: cut.Add(c.acked)}},
			}
			for i := range c.more + 1 {
				id := "run"
				if i > 0 {
					id = fmt.Sprint("second-", i)
				}
				found := check.Reading{Status: check.Found, At: cut.Add(10 * time.Minute), Run: check.Run{ID: id, State: check.Succeeded}}
				h.Runs = append(h.Runs, check.Observation{ID: id, Ref: cutRef, First: found, Second: found})
				h.Seen = append(h.Seen, check.Sighting{Run: id, Ref: cutRef, Attempt: 1, At: cut.Add(2 * time.Minute), End: cut.Add(2 * time.Minute), Status: 200})
			}
			f := h.Forgive([]check.Loss{c.loss})
			rep, err := check.Judge(h)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Unexpected != c.want || f.Second != c.more-c.want {
				t.Errorf("unexpected %d, forgiven %d, want %d, %d", rep.Unexpected, f.Second, c.want, c.more-c.want)
			}
		})
	}
}

// powerCut is a history of one job, due 30 s after a power cut that may have taken the 10 s before
// it.
type powerCut struct {
	check.History
	loss check.Loss
}

var cutRef = check.Ref{Source: "s", Line: 1}

// cutOff is such a history: the job was acknowledged so long after the cut (before it, if
// negative), and was found then in that state.
func cutOff(acked time.Duration, state check.State) *powerCut {
	cut := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	found := check.Reading{Status: check.Found, At: cut.Add(10 * time.Minute), Run: check.Run{ID: "run", State: state}}
	return &powerCut{
		History: check.History{
			SeenAll: true,
			Asked:   []check.Ask{{Ref: cutRef, Key: "k", At: cut.Add(30 * time.Second)}},
			Acks:    []check.Ack{{Ref: cutRef, ID: "run", Status: 201, At: cut.Add(acked)}},
			Runs:    []check.Observation{{ID: "run", Ref: cutRef, First: found, Second: found}},
		},
		loss: check.Loss{From: cut.Add(-10 * time.Second), Cut: cut},
	}
}

// call adds a call with an answer of 200, each told from the cut on.
func (h *powerCut) call(arrived, ended time.Duration) *check.Sighting {
	h.Seen = append(h.Seen, check.Sighting{
		Run: "run", Ref: cutRef, Attempt: 1, At: h.loss.Cut.Add(arrived), End: h.loss.Cut.Add(ended), Status: 200,
	})
	return &h.Seen[len(h.Seen)-1]
}

func (h *powerCut) judge(t *testing.T) check.Report {
	t.Helper()
	h.Forgive([]check.Loss{h.loss})
	return judge(t, h.History)
}

func TestARunThatSurvivedAPowerCutIsOwedEverything(t *testing.T) {
	const within = -4 * time.Second
	rows := []struct {
		name  string
		forge func(*powerCut)
		state check.State
		ok    bool
	}{
		{name: "pending for ever", state: check.Pending},
		{name: "missed, and it has no such policy", state: check.Missed},
		{name: "cancelled, and nobody asked", state: check.Cancelled},
		{name: "failed without a start", state: check.Failed},
		{name: "succeeded, and nobody was called", state: check.Succeeded},
		{
			name: "it could not be read", state: check.Pending,
			forge: func(h *powerCut) { h.Runs[0].First, h.Runs[0].Second = check.Reading{}, check.Reading{} },
		},
		{name: "it ran", state: check.Succeeded, forge: func(h *powerCut) { h.call(30*time.Second, 31*time.Second) }, ok: true},
		{
			name: "it is not there", ok: true,
			forge: func(h *powerCut) {
				h.Runs[0].First, h.Runs[0].Second = check.Reading{Status: check.Absent}, check.Reading{Status: check.Absent}
			},
		},
		{
			name: "it was there at first", ok: true, state: check.Pending,
			forge: func(h *powerCut) { h.Runs[0].Second = check.Reading{Status: check.Absent} },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			h := cutOff(within, row.state)
			if row.forge != nil {
				row.forge(h)
			}
			if rep := h.judge(t); rep.Failed() == row.ok {
				t.Errorf("Failed = %t, want %t: %+v", rep.Failed(), !row.ok, rep)
			}
		})
	}
}

func TestACallUnderWayInALossMayLoseItsRecord(t *testing.T) {
	const before = -time.Minute
	rows := []struct {
		name           string
		arrived, ended time.Duration
		change         func(*check.Sighting)
		ok             bool
	}{
		{name: "it arrived and ended in it", arrived: -5 * time.Second, ended: -4 * time.Second, ok: true},
		{name: "it ended in it", arrived: -10500 * time.Millisecond, ended: -8500 * time.Millisecond, ok: true},
		{name: "it began before it and ended after it", arrived: -20 * time.Second, ended: time.Second, ok: true},
		{name: "it arrived in it", arrived: -time.Second, ended: time.Second, ok: true},
		{name: "its record may have come in it", arrived: -12 * time.Second, ended: -11 * time.Second, ok: true},
		{name: "its record had come before", arrived: -12 * time.Second, ended: -11001 * time.Millisecond},
		{name: "it arrived after the cut", arrived: time.Millisecond, ended: 2 * time.Millisecond},
		{
			name: "nobody knows when it ended", arrived: -20 * time.Second, ok: true,
			change: func(s *check.Sighting) { s.End = time.Time{} },
		},
		{
			name: "its caller went away long before", arrived: -30 * time.Second,
			change: func(s *check.Sighting) { s.End, s.Gone, s.Status = time.Time{}, s.At.Add(time.Second), 0 },
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			h := cutOff(before, check.Pending)
			h.Asked[0].At = time.Time{} // at once
			s := h.call(row.arrived, row.ended)
			if row.change != nil {
				row.change(s)
			}
			if rep := h.judge(t); rep.Failed() == row.ok {
				t.Errorf("Failed = %t, want %t: %+v", rep.Failed(), !row.ok, rep)
			}
		})
	}
}
