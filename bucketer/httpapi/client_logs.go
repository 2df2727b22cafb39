package httpapi

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"carillon.dev/carillon/bucketer/logs"
)

// LogQuery selects lines in the logs of runs. Empty fields select all, unless they say otherwise.
type LogQuery struct {
	From, To time.Time // due times of runs; zero: as the server chooses
	Job      string    // id or name
	Run      string    // id
	Task     string
	Labels   map[string]string // all of them
	Text     string            // is part of the line
	Kind     logs.Kind
	Limit    int // of one page; 0 means 500
}

func (q *LogQuery) params() url.Values {
	params := stated(map[string]string{"job": q.Job, "run": q.Run, "task": q.Task, "text": q.Text, "kind": string(q.Kind)})
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			params.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, value := range q.Labels {
		params.Add("label", name+"="+value)
	}
	if q.Limit == 0 {
		q.Limit = 500
	}
	params.Set("limit", strconv.Itoa(q.Limit))
	return params
}

// LogPage is an answer to a search of logs.
type LogPage struct {
	Items      []FoundLine `json:"items"`
	LookedAt   LookedAt    `json:"looked_at"`
	NextCursor string      `json:"next_cursor"`
}

// SearchLogs returns the answers to a search, one after the other, until all was looked at, however
// long its window is: it asks for a day at a time, the latest first. An answer may have no items.
// It ends with the first error.
func (c *Client) SearchLogs(ctx context.Context, q LogQuery) iter.Seq2[LogPage, error] {
	return func(yield func(LogPage, error) bool) {
		first := q.From
		days := q.Job == "" && q.Run == "" && !first.IsZero()
		if days && q.To.IsZero() {
			q.To = time.Now().Add(time.Second)
		}
		for {
			if q.From = first; days && q.To.Sub(first) > maxRunsWindow {
				q.From = q.To.Add(-maxRunsWindow)
			}
			for page, err := range c.logPages(ctx, q.params(), func(*LogPage) time.Duration { return 0 }) {
				if !yield(page, err) || err != nil {
					return
				}
			}
			if q.To = q.From; !q.To.After(first) {
				return
			}
		}
	}
}

// FollowLogs returns what runs log that fall due from q.From on (zero: a minute ago), as it comes,
// until the run that q asks for has ended, or else for ever. It asks every pause. q.To must be
// zero.
func (c *Client) FollowLogs(ctx context.Context, q LogQuery, pause time.Duration) iter.Seq2[LogPage, error] {
	params := q.params()
	params.Set("follow", "true")
	return c.logPages(ctx, params, func(p *LogPage) time.Duration {
		if p.LookedAt.Behind {
			return 0
		}
		return pause
	})
}

func (c *Client) logPages(ctx context.Context, params url.Values, pause func(*LogPage) time.Duration) iter.Seq2[LogPage, error] {
	return func(yield func(LogPage, error) bool) {
		for {
			var page LogPage
			if _, err := c.call(ctx, ask{method: http.MethodGet, path: logsPath + "?" + params.Encode(), repeatable: true}, &page); err != nil {
				yield(page, err)
				return
			}
			if !yield(page, nil) || page.NextCursor == "" {
				return
			}
			params.Set("cursor", page.NextCursor)
			if wait := pause(&page); wait > 0 {
				if err := sleep(ctx, wait); err != nil {
					yield(LogPage{}, err)
					return
				}
			}
		}
	}
}
