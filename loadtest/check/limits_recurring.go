package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file judges what the concurrency of a job did to its runs. A skipped or cancelled run needs
// a reason: other runs under way or due.

const (
	// slotSlack is how much longer than its attempts a run may have its slot. It takes and releases
	// the slot by conditional writes, which may be slow.
	slotSlack = 3 * time.Second
	// slotLost is how long after the kill of a node slots may be taken without a call: by runs that
	// it had not called yet, until others notice that its session is dead.
	slotLost = 30 * time.Second
)

// Concurrency is how many runs of a job may be under way at once, and what happens to the next; its
// JSON is that of the API.
type Concurrency struct {
	Limit   int    `json:"limit"`
	OnLimit string `json:"on_limit,omitempty"` // queue, skip or cancel_oldest
	Key     string `json:"key,omitempty"`      // a JSON pointer: the limit counts for each value there
}

// The reasons that the API gives for a limit, up to the colon.
const (
	skippedByLimit   = "skipped"
	cancelledByLimit = "cancel_oldest"
)

// An occupation is the span in which a run may have had a slot.
type occupation struct {
	run      *recurringRun
	from, to time.Time
}

// limit returns the limit of a job; nil if it had none, or not always the same.
func (j *recurringJob) limit() *Concurrency {
	var is *Concurrency
	for _, e := range j.events {
		switch {
		case e.Refused:
		case e.Acked.IsZero(), e.Job.Concurrency == nil, is != nil && *is != *e.Job.Concurrency:
			return nil
		default:
			is = e.Job.Concurrency
		}
	}
	return is
}

// occupy finds out when the job's runs may have had slots.
func (j *recurringJob) occupy(runs []*recurringRun) {
	for _, r := range runs {
		from, ok := r.firstStart()
		if !ok {
			continue
		}
		j.occupied = append(j.occupied, occupation{r, from.Add(-slotSlack), r.lastEnd().Add(slotSlack)})
	}
}

// lastEnd returns the last end that is known of the run.
func (r *recurringRun) lastEnd() time.Time {
	var last time.Time
	for _, s := range r.seen {
		last = latestOf(last, latestOf(s.At, s.End))
	}
	for _, reading := range r.found() {
		last = latestOf(last, reading.Run.FinishedAt)
	}
	for _, a := range r.attempts() {
		last = latestOf(last, latestOf(a.StartedAt, a.FinishedAt))
	}
	if r.shown == nil || !r.shown.State.Terminal() {
		return time.UnixMilli(never)
	}
	return last
}

// skipped says why a run may not have been skipped; "" if it may: as many others were under way.
func (j *recurringJob) skipped(r *recurringRun) string {
	limit, at := j.limit(), r.shown.FinishedAt
	if limit == nil || limit.OnLimit != "skip" {
		return "its job does not say so"
	}
	if slices.ContainsFunc(j.kills, func(kill Kill) bool { return at.After(kill.At) && at.Before(kill.At.Add(slotLost)) }) {
		return ""
	}
	others := 0
	for _, o := range j.occupied {
		if o.run != r && !at.Before(o.from) && !at.After(o.to) {
			others++
		}
	}
	if others < limit.Limit {
		return fmt.Sprintf("%d runs of the job were under way then, of %d that may be", others, limit.Limit)
	}
	return ""
}

// cancelled says why a run may not have been cancelled; "" if it may: by request, or because its
// limit says so and as many later runs were due.
func (j *recurringJob) cancelled(r *recurringRun, runs []*recurringRun) string {
	at := r.shown.FinishedAt
	if !r.byLimit() {
		if slices.ContainsFunc(j.events, func(e *JobEvent) bool { return e.Kind == JobCancelled && !e.Refused && !e.Requested.After(at) }) {
			return ""
		}
		return "nobody asked for that"
	}
	limit := j.limit()
	if limit == nil || limit.OnLimit != "cancel_oldest" {
		return "its job does not say so"
	}
	later := 0
	for _, o := range runs {
		if o.due > r.due && o.due <= at.UnixMilli() {
			later++
		}
	}
	if later < limit.Limit {
		return fmt.Sprintf("%d later runs of the job were due then, of %d that may be under way", later, limit.Limit)
	}
	return ""
}

// byLimit reports whether the API says that the run was cancelled because of its job's limit.
func (r *recurringRun) byLimit() bool {
	cause, _, _ := strings.Cut(r.shown.CancelReason, ":")
	return r.shown.State == Cancelled && cause == cancelledByLimit
}

// limits judges a job that has a limit.
func (j *recurringJudge) limits(job *recurringJob, runs []*recurringRun) {
	limit := job.limit()
	if limit == nil {
		return
	}
	c := j.slotCount(limit)
	c.Jobs++
	var calls []held
	for _, r := range runs {
		c.Runs++
		calls = append(calls, r.holds(j.h.SeenAll)...)
		if first, ok := r.firstStart(); ok && first.Sub(time.UnixMilli(r.due)) >= WaitedAfter {
			c.Waited++
		}
		if r.shown == nil {
			continue
		}
		if cause, _, _ := strings.Cut(r.reason(), ":"); r.shown.State == Missed && cause == skippedByLimit {
			c.Skipped++
		}
		if r.byLimit() {
			c.Cancelled++
		}
	}
	for _, same := range limit.apart(calls) {
		c.judge(same, true, j.base.fault)
	}
}

// apart returns the calls that surely count together: all, or where the limit has a key those with
// the same payload. Other payloads may have the same value; that is not seen.
func (c *Concurrency) apart(calls []held) [][]held {
	if c.Key == "" {
		return [][]held{calls}
	}
	var groups [][]held
	at := make(map[Hash]int)
	for _, call := range calls {
		if call.Sent == nil {
			continue
		}
		i, known := at[call.Sent.Body]
		if !known {
			i = len(groups)
			at[call.Sent.Body], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], call)
	}
	return groups
}

// slotCount returns the count of the jobs with a limit, made if it is new.
func (j *recurringJudge) slotCount(limit *Concurrency) *SlotCount {
	of := limit.OnLimit
	if limit.Key != "" {
		of += " by " + limit.Key
	}
	i := slices.IndexFunc(j.rep.Limits, func(c SlotCount) bool { return c.Of == of && c.Limit == limit.Limit })
	if i < 0 {
		i = len(j.rep.Limits)
		j.rep.Limits = append(j.rep.Limits, SlotCount{Of: of, Limit: limit.Limit})
	}
	return &j.rep.Limits[i]
}
