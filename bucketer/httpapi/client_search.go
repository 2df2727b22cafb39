package httpapi

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// RunPage is an answer to a search of runs.
type RunPage struct {
	Items      []Run    `json:"items"`
	Searched   Searched `json:"searched"`
	NextCursor string   `json:"next_cursor"`
}

// SearchRuns returns the answers to a search of runs, from the newest minute back, until all was
// looked at. An answer may have no items. Zero From and To: as the server chooses. It ends with the
// first error.
func (c *Client) SearchRuns(ctx context.Context, q RunQuery) iter.Seq2[RunPage, error] {
	return func(yield func(RunPage, error) bool) {
		params := q.params()
		params.Set("order", orderNewest)
		windowParams(params, q.From, q.To)
		if q.Limit == 0 {
			q.Limit = 500
		}
		params.Set("limit", strconv.Itoa(q.Limit))
		for {
			var page RunPage
			_, err := c.call(ctx, ask{method: http.MethodGet, path: "/v1/runs?" + params.Encode(), repeatable: true}, &page)
			if !yield(page, err) || err != nil || page.NextCursor == "" {
				return
			}
			params.Set("cursor", page.NextCursor)
		}
	}
}

// windowParams states the ends of a window that are not zero.
func windowParams(params url.Values, from, to time.Time) {
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			params.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
}

// RunStates counts the runs of q by where they are on their way: it returns the sums after each
// answer, until all was counted. Zero From and To: as the server chooses. Of the filters it takes
// Task, Host, Labels, OneOff and CreatedBy. It ends with the first error.
func (c *Client) RunStates(ctx context.Context, q RunQuery) iter.Seq2[RunStates, error] {
	return func(yield func(RunStates, error) bool) {
		params := (&RunQuery{Task: q.Task, Host: q.Host, Labels: q.Labels, OneOff: q.OneOff, CreatedBy: q.CreatedBy}).params()
		windowParams(params, q.From, q.To)
		sum := RunStates{States: map[string]int64{}, Waiting: map[string]int64{}}
		for {
			var page RunStates
			_, err := c.call(ctx, ask{method: http.MethodGet, path: statesPath + "?" + params.Encode(), repeatable: true}, &page)
			if err != nil {
				yield(sum, err)
				return
			}
			sum.add(&page)
			if !yield(sum, nil) || page.NextCursor == "" {
				return
			}
			params.Set("cursor", page.NextCursor)
		}
	}
}

// add adds the answer after those that s is the sum of.
func (s *RunStates) add(next *RunStates) {
	s.From, s.To, s.Complete, s.NextCursor = next.From, next.To, next.Complete, next.NextCursor
	s.Ready, s.DueSoon, s.Delayed, s.Running, s.Done = s.Ready+next.Ready, s.DueSoon+next.DueSoon, s.Delayed+next.Delayed, s.Running+next.Running, s.Done+next.Done
	for state, n := range next.States {
		s.States[state] += n
	}
	for what, n := range next.Waiting {
		s.Waiting[what] += n
	}
	partitions := s.Searched.Partitions
	s.Searched = next.Searched
	s.Searched.Partitions += partitions
}

// HistoryPage is an answer to an export.
type HistoryPage struct {
	Lines      []byte    // a run a line, as JSON; empty: none in this part of the day
	Until      time.Time // all that was due before then is exported
	NextCursor string    // "": this was the last
}

// History returns the runs that were due on a day (such as 2026-11-20, in UTC) from a cursor on, ""
// from the first.
func (c *Client) History(ctx context.Context, day, cursor string) (HistoryPage, error) {
	params := url.Values{"day": {day}}
	if cursor != "" {
		params.Set("cursor", cursor)
	}
	var page HistoryPage
	header, err := c.call(ctx, ask{method: http.MethodGet, path: historyPath + "?" + params.Encode(), repeatable: true}, &page.Lines)
	if err != nil {
		return HistoryPage{}, err
	}
	page.NextCursor = header.Get(nextCursorHeader)
	page.Until, _ = time.Parse(time.RFC3339Nano, header.Get(searchedHeader)) // absent: zero
	return page, nil
}
