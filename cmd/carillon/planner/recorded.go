package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// recordedRun is a run as the API answers it, as far as it is needed.
type recordedRun struct {
	Due      time.Time       `json:"due_at"`
	Tenant   string          `json:"tenant"`
	Task     string          `json:"task"`
	Priority schema.Priority `json:"priority"`
	Attempts []struct {
		Started  time.Time `json:"started_at"`
		Finished time.Time `json:"finished_at"`
	} `json:"attempts"`
}

// ReadRecorded reads runs as the API answers them, one JSON document after the other, each a run or
// a page with "items". It returns a load for each tenant, task and priority, and the span from the
// first instant at which one was due to the last. Runs that were never called are left out, and
// counted.
func ReadRecorded(in io.Reader) (loads []Load, span time.Duration, left int, err error) {
	type of struct {
		tenant, task string
		priority     schema.Priority
	}
	var runs []recordedRun
	d := json.NewDecoder(in)
	for {
		var doc struct {
			recordedRun
			Items []recordedRun `json:"items"`
		}
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, 0, fmt.Errorf("at byte %d: %w", d.InputOffset(), err)
		}
		if doc.Items == nil {
			doc.Items = []recordedRun{doc.recordedRun}
		}
		if runs = append(runs, doc.Items...); len(runs) > MaxRuns {
			return nil, 0, 0, fmt.Errorf("more than %d runs", MaxRuns)
		}
	}
	runs = slices.DeleteFunc(runs, func(r recordedRun) bool {
		called := !r.Due.IsZero() && slices.ContainsFunc(r.Attempts, func(a struct {
			Started  time.Time `json:"started_at"`
			Finished time.Time `json:"finished_at"`
		},
		) bool {
			return !a.Started.IsZero() && !a.Finished.Before(a.Started)
		})
		if !called {
			left++
		}
		return !called
	})
	if len(runs) == 0 {
		return nil, 0, left, errors.New("no run that was called: want runs with due_at and attempts, as GET /v1/runs answers them")
	}
	slices.SortFunc(runs, func(a, b recordedRun) int { return a.Due.Compare(b.Due) })
	first, last := runs[0].Due, runs[len(runs)-1].Due
	at := make(map[of]int)
	for i := range runs {
		r := &runs[i]
		key := of{r.Tenant, r.Task, r.Priority}
		n, ok := at[key]
		if !ok {
			n = len(loads)
			at[key] = n
			name := r.Task
			if name == "" {
				name = "inline"
			}
			loads = append(loads, Load{Name: name, Tenant: r.Tenant, Priority: r.Priority})
		}
		took := time.Duration(0)
		for _, a := range r.Attempts {
			if !a.Started.IsZero() && a.Finished.After(a.Started) {
				took += a.Finished.Sub(a.Started)
			}
		}
		loads[n].Recorded = append(loads[n].Recorded, Recorded{r.Due.Sub(first), took})
	}
	return loads, last.Sub(first) + time.Millisecond, left, nil
}
