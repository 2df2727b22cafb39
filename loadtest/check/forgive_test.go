package check_test

import (
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A history of a power cut: of five jobs one was acknowledged long before it and ran after it, one ran
// in the last seconds before it and again afterwards, one was acknowledged in the last seconds and is
// gone, one was acknowledged then and is there, and one, acknowledged long before, is gone.
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
	if rep.Acknowledged != 2 || rep.Missed != 1 || rep.Unknown != 2 || rep.UnknownRan != 1 || rep.Unexpected != 0 || !rep.Failed() {
		t.Errorf("Judge = %+v, want line 5 missed and nothing else", rep)
	}
}
