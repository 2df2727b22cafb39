package executor

import (
	"math"
	"math/rand/v2"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// backOff returns how long to wait after the failure of attempt number n (from 1): initial × factor^(n−1), at most max. With
// full jitter it is drawn evenly between 0 and that (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture
// Blog, 2015); draw returns a number in [0, 1).
func backOff(r schema.Retry, n int, draw func() float64) time.Duration {
	d := float64(r.Initial) * math.Pow(r.Factor, float64(n-1))
	d = min(d, float64(r.Max))
	if r.Jitter != "none" {
		d *= draw()
	}
	return time.Duration(d)
}

// after decides what follows attempt number n with that result: the due time of the next attempt, or none.
func after(res target.Result, r schema.Retry, n int, finished time.Time) (time.Time, bool) {
	switch res.Outcome {
	case schema.Failed, schema.TimedOut:
	default:
		return time.Time{}, false
	}
	if res.Final || n >= r.MaxAttempts {
		return time.Time{}, false
	}
	wait := max(backOff(r, n, rand.Float64), min(res.RetryAfter, target.MaxRetryAfter))
	due := finished.Add(wait)
	if cut := due.Truncate(time.Millisecond); cut.Before(due) { // ids hold ms: never sooner than was asked
		due = cut.Add(time.Millisecond)
	}
	return due, true
}
