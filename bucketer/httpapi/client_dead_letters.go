package httpapi

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"carillon.dev/carillon/schema"
)

// LetterQuery selects dead letters that wait by the time at which their runs were first to start,
// From ≤ due < To. Empty fields select all; the server has its own window where From or To is zero.
type LetterQuery struct {
	From, To time.Time
	Task     string
	Job      string   // its id or its name
	Labels   []string // name=value: runs that have all of them
	Pattern  string   // the error_pattern of their errors
	Error    string   // part of the error, in letters of either case
	Limit    int      // of one page; 0 means 500
}

// DeadLetters returns the runs that have failed for good and were neither replayed nor discarded,
// the latest due first. It ends with the first error.
func (c *Client) DeadLetters(ctx context.Context, q LetterQuery) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		params := url.Values{}
		for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
			if !at.IsZero() {
				params.Set(name, at.UTC().Format(time.RFC3339Nano))
			}
		}
		for name, text := range map[string]string{"task": q.Task, "job": q.Job, "error_pattern": q.Pattern, "error": q.Error} {
			if text != "" {
				params.Set(name, text)
			}
		}
		for _, label := range q.Labels {
			params.Add("label", label)
		}
		eachItem(ctx, c, lettersPath, params, q.Limit, yield)
	}
}

// DeadLetter returns the dead letter of a run that waits or was replayed.
func (c *Client) DeadLetter(ctx context.Context, id schema.RunID) (DeadLetter, error) {
	var out DeadLetter
	_, err := c.call(ctx, ask{method: http.MethodGet, path: lettersPath + "/" + id.String(), repeatable: true}, &out)
	return out, err
}

// ReplayDeadLetter runs what failed again, as a new run: the same one however often it is asked
// for.
func (c *Client) ReplayDeadLetter(ctx context.Context, id schema.RunID) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{method: http.MethodPost, path: lettersPath + "/" + id.String() + "/replay", repeatable: true}, &out)
	return out, err
}

// DiscardDeadLetter lets a dead letter go; twice is the same as once.
func (c *Client) DiscardDeadLetter(ctx context.Context, id schema.RunID) error {
	_, err := c.call(ctx, ask{method: http.MethodDelete, path: lettersPath + "/" + id.String(), repeatable: true}, nil)
	return err
}
