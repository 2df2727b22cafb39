package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

// TestRunsAreSearched: by filters of one-off jobs, counted, and exported.
func TestRunsAreSearched(t *testing.T) {
	c := open(t)
	var made []client.RunID
	for n := range 3 {
		job, err := c.Jobs.Create(t.Context(), client.NewJob(client.NATS("x")).Label("n", fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, client.RunID(job.ID))
	}
	answers := 0
	q := client.RunQuery{OneOff: true, Labels: map[string]string{"n": "1"}, From: time.Now().Add(-time.Minute)}
	got := collect(t, c.Runs.Search(t.Context(), q, func(s client.Searched) {
		if answers++; s.By != "scan" {
			t.Errorf("searched by %q", s.By)
		}
	}))
	if len(got) != 1 || got[0].ID != made[1] || answers == 0 {
		t.Errorf("Search = %+v after %d answers, want %s", got, answers, made[1])
	}
	s, err := c.Runs.States(t.Context(), client.RunQuery{})
	if err != nil || s.Ready != 3 || s.States["pending"] != 3 || !s.Complete {
		t.Errorf("States = %+v, %v; want three that are ready", s, err)
	}
	for run, err := range c.Runs.History(t.Context(), time.Now()) {
		e := new(client.Error)
		if !errors.As(err, &e) || !slices.ContainsFunc(e.Faults, func(f client.Fault) bool { return f.Location == "query.day" }) {
			t.Errorf("History of a day that has not ended = %+v, %v", run, err)
		}
	}
	if got := collect(t, c.Runs.History(t.Context(), time.Now().AddDate(0, 0, -2))); len(got) != 0 {
		t.Errorf("History of a day without runs = %+v", got)
	}
}
