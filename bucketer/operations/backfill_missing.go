package operations

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// The bounds of a backfill of what is missing: how many runs of the job are read, so many a page,
// and how many stretches of times that have runs may lie between those that have none.
const (
	missingRuns  = 20_000
	missingPage  = 500
	missingPages = 400
	missingSkips = 500
)

// missingPlace begins where a backfill goes on that leaves times out, from its beginning on. A build
// that does not know Skip cannot read such a place, and leaves the backfill to others: it would ask
// for a run of each time.
const missingPlace = "missing "

func beginningOfBackfill(f *schema.Backfill) string {
	if len(f.Skip) > 0 {
		return missingPlace
	}
	return ""
}

// skipRuns has a backfill leave out the times that have a run. One that was left out is none:
// nothing ran. What has left the store cannot be told from what never was, so the stretch must lie
// within the retention. That is the one of now: after a raise, runs from before it leave after the
// shorter one, and look missing. When it was raised is not stored, so callers are told (OpenAPI,
// help).
func (o backfillPlanner) skipRuns(ctx context.Context, tenant string, f *schema.Backfill) error {
	now := o.now()
	kept := o.bucketer.Expiry(now, now).Sub(now)
	if days := o.bucketer.RetentionOf(tenant); days > 0 {
		kept = min(kept, time.Duration(days)*24*time.Hour)
	}
	if f.From.Before(now.Add(-kept)) {
		message := "lies before what is kept of the history: whether there was a run then is not known; missing is for times from " + now.Add(-kept).UTC().Format(time.RFC3339) + " on"
		return bucketer.Faults{{Location: "body.from", Message: message}}
	}
	have, err := haveRuns(ctx, o.jobs, tenant, f)
	if err != nil || len(have) == 0 {
		return err
	}
	s, err := timesOf(f)
	if err != nil {
		return err
	}
	f.Count = 0
	before := false // the time before has a run
	for at := range s.From(f.From.Add(-time.Millisecond)) {
		if !at.Before(f.To) {
			break
		}
		ms := at.UnixMilli()
		switch has := have[ms]; {
		case !has:
			f.Count++
			before = false
			continue
		case before:
			f.Skip[len(f.Skip)-1][1] = ms
		default:
			f.Skip = append(f.Skip, [2]int64{ms, ms})
		}
		before = true
	}
	if len(f.Skip) > missingSkips {
		message := fmt.Sprintf("lets the stretch fall into too many parts: times with runs lie between those without in %d places, and one backfill may have %d", len(f.Skip), missingSkips)
		return bucketer.Faults{{Location: "body.missing", Message: message}}
	}
	return nil
}

// haveRuns returns the nominal times, in ms, of the runs of a backfill's job that are due from its
// stretch on: a run is due at its time or later. Those that were left out are not among them, nor
// one under way whose line of history could not be written (bucketer.Writer).
func haveRuns(ctx context.Context, jobs *recurring.Jobs, tenant string, f *schema.Backfill) (map[int64]bool, error) {
	have := make(map[int64]bool)
	var pos runs.Position
	read := 0
	for range missingPages {
		page, next, err := jobs.JobRuns(ctx, tenant, f.Job, recurring.JobRunFilter{From: f.From, Own: true}, pos, missingPage)
		if err != nil {
			return nil, fmt.Errorf("runs of job %s: %w", f.Job, err)
		}
		for i := range page {
			if !leftOut(&page[i]) {
				have[page[i].Entry.Spec.Nominal.UnixMilli()] = true
			}
		}
		if read += len(page); next == nil {
			return have, nil
		}
		if pos = *next; read > missingRuns {
			break
		}
	}
	message := fmt.Sprintf("makes the stretch too long: missing is for at most %d runs of the job from then on", missingRuns)
	return nil, bucketer.Faults{{Location: "body.from", Message: message}}
}

// times are the nominal times of a backfill's schedule, without those that it leaves out.
type times struct {
	schedule *schedule.Schedule
	skip     [][2]int64
}

func timesOf(f *schema.Backfill) (*times, error) {
	s, err := schedule.Compile(f.Schedule, recurring.SeedOf(f.Job))
	if err != nil {
		return nil, fmt.Errorf("schedule of job %s: %w: %w", f.Job, schema.ErrNotUnderstood, err)
	}
	return &times{s, f.Skip}, nil
}

// Next returns the first time strictly after t, or false if there is none.
func (s *times) Next(t time.Time) (time.Time, bool) {
	next, ok := s.schedule.Next(t)
	for _, out := range s.skip {
		if ms := next.UnixMilli(); ok && out[0] <= ms && ms <= out[1] {
			next, ok = s.schedule.Next(time.UnixMilli(out[1]))
		}
	}
	return next, ok
}

// From returns the times strictly after t, in order.
func (s *times) From(t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for next, ok := s.Next(t); ok; next, ok = s.Next(next) {
			if !yield(next) {
				return
			}
		}
	}
}

// leftOut reports whether nothing ran at the time of a run, and nobody asked for that: it was
// missed, or never started because its job was paused or changed. A run that the limit of its job
// cancelled counts as one that somebody cancelled: the job asks for that.
func leftOut(r *runs.Run) bool {
	return r.State == schema.StateMissed || r.State == schema.StateCancelled &&
		slices.ContainsFunc(r.Attempts, func(a schema.Attempt) bool { return a.Record != nil && a.Record.CancelledByJob() })
}
