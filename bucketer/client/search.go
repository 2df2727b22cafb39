package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Searched says how far a search of runs has come.
type Searched struct {
	// By is what found the runs: "scan", or an index: "dead_letters" or "job".
	By string `json:"by"`
	// Until: all runs of the window that are due then or later were looked at.
	Until time.Time `json:"until,omitzero"`
	// Partitions is how many partitions of due times the answer looked into, about.
	Partitions int `json:"partitions"`
}

// Search returns the runs of a window of up to 366 days, from the newest minute back; those of one
// minute in the order of due times. Zero From and To: the last day, or of a job all. searched is
// told after each answer how far it came; nil: nobody is. Runs have no index of labels, tasks and
// errors, so minutes are read one after the other, some dozens an answer. It ends with the first
// error.
func (r Runs) Search(ctx context.Context, q RunQuery, searched func(Searched)) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		params := q.params()
		params.Set("order", "newest")
		q.window(params)
		params.Set("limit", strconv.Itoa(maxPage))
		for {
			page, err := ask[struct {
				Items      []Run    `json:"items"`
				Searched   Searched `json:"searched"`
				NextCursor string   `json:"next_cursor"`
			}](ctx, r.node, question{method: http.MethodGet, path: []string{"runs"}, query: params})
			if err != nil {
				yield(Run{}, err)
				return
			}
			for _, run := range page.Items {
				if !yield(run, nil) {
					return
				}
			}
			if searched != nil {
				searched(page.Searched)
			}
			if page.NextCursor == "" {
				return
			}
			params.Set("cursor", page.NextCursor)
		}
	}
}

// RunStates counts runs by where they are on their way.
type RunStates struct {
	From    time.Time        `json:"from"` // the window that is counted
	To      time.Time        `json:"to"`
	Ready   int64            `json:"ready"`    // due, and not started
	DueSoon int64            `json:"due_soon"` // due within the next 5 minutes
	Delayed int64            `json:"delayed"`  // due later, or waiting for a later attempt or for other jobs
	Running int64            `json:"running"`
	Done    int64            `json:"done"`
	States  map[string]int64 `json:"states"` // by state; those without runs are left out
	// Waiting is how many may not start yet, by what they wait for, such as "rate".
	Waiting map[string]int64 `json:"waiting"`
	// Complete: all of the window was counted. Else the numbers are those of the part from
	// Searched.Until on.
	Complete   bool     `json:"complete"`
	Searched   Searched `json:"searched"`
	NextCursor string   `json:"next_cursor,omitempty"`
}

// States counts the runs of a window by where they are on their way: the numbers of what is due
// from an hour ago up to an hour ahead where q has no From and To. It asks until all was counted,
// so a long window takes its time. An error comes with what was counted before it. Of the filters
// of q it takes Task, Labels, OneOff and CreatedBy.
func (r Runs) States(ctx context.Context, q RunQuery) (RunStates, error) {
	params := RunQuery{Task: q.Task, Labels: q.Labels, OneOff: q.OneOff, CreatedBy: q.CreatedBy}.params()
	q.window(params)
	sum := RunStates{States: map[string]int64{}}
	for {
		page, err := ask[RunStates](ctx, r.node, question{method: http.MethodGet, path: []string{"stats", "states"}, query: params})
		if err != nil {
			return sum, err
		}
		counted := page.States
		page.Ready, page.DueSoon, page.Delayed = page.Ready+sum.Ready, page.DueSoon+sum.DueSoon, page.Delayed+sum.Delayed
		page.Running, page.Done = page.Running+sum.Running, page.Done+sum.Done
		page.Searched.Partitions += sum.Searched.Partitions
		page.States = sum.States
		for state, n := range counted {
			page.States[state] += n
		}
		if sum = page; sum.NextCursor == "" {
			return sum, nil
		}
		params.Set("cursor", sum.NextCursor)
	}
}

// History returns the runs that were due on the day of an instant, in UTC, in the order of due
// times, without payloads and outputs. The day must have ended. It ends with the first error.
func (r Runs) History(ctx context.Context, day time.Time) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		params := url.Values{"day": {day.UTC().Format(time.DateOnly)}}
		for {
			a, err := r.node.send(ctx, &question{method: http.MethodGet, path: []string{"history"}, query: params})
			if err != nil {
				yield(Run{}, err)
				return
			}
			for line := range bytes.Lines(a.body) {
				var run Run
				if err := json.Unmarshal(line, &run); err != nil {
					yield(Run{}, fmt.Errorf("carillon: read a line of history: %w", err))
					return
				}
				if !yield(run, nil) {
					return
				}
			}
			next := a.header.Get("Carillon-Next-Cursor")
			if next == "" {
				return
			}
			params.Set("cursor", next)
		}
	}
}

// window states the ends of the window that are not zero.
func (q RunQuery) window(params url.Values) {
	for name, at := range map[string]string{"from": instant(q.From), "to": instant(q.To)} {
		if at != "" {
			params.Set(name, at)
		}
	}
}
