package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// errOpen: a calendar was changed, and the job that uses it was not yet.
var errOpen = errors.New("the job goes by the old dates")

// aroundToday are the dates that clocks of any zone show during a scenario.
func aroundToday() (dates []string) {
	for day := -1; day <= 1; day++ {
		dates = append(dates, time.Now().AddDate(0, 0, day).UTC().Format(time.DateOnly))
	}
	return dates
}

// farAway is a date that no scenario comes to.
var farAway = []string{"2035-05-01"}

func calendarOf(r *recurring) schema.Calendar {
	return schema.Calendar{Tenant: "default", Name: fmt.Sprintf("closed-%d", r.ref.Line), Dates: r.closed}
}

// useCalendar has a job that is to be created go by a calendar. It reports whether there is one.
func (w *world) useCalendar(ctx context.Context, r *recurring, rng *rand.Rand) bool {
	r.closed = farAway
	if rng.IntN(3) == 0 {
		r.closed = aroundToday()
	}
	rule := r.spec.Schedule
	one := schema.Schedule{Cron: rule.Cron, Timezone: rule.Timezone, Every: rule.Every, Calendar: &schema.ScheduleCalendar{Name: calendarOf(r).Name}}
	r.spec.Schedule = &schema.Schedule{Jitter: rule.Jitter, Any: []schema.Schedule{one}}
	for range askTries {
		if b := w.someNode(); b != nil {
			if _, err := b.PutCalendar(ctx, calendarOf(r)); err == nil {
				return true
			}
		}
		time.Sleep(askPause)
	}
	return false
}

// changeCalendar opens the calendar of a job, or closes it: for as long as the scenario takes the
// job is due as ever, or not at all. To the judge the job was changed.
func (w *world) changeCalendar(ctx context.Context, r *recurring) {
	if r.closed[0] == farAway[0] {
		r.closed = aroundToday()
	} else {
		r.closed = farAway
	}
	w.alter(r, check.JobUpdated, func(b *engine.Engine) (schema.Job, error) {
		change, err := b.PutCalendar(ctx, calendarOf(r))
		if err != nil {
			return schema.Job{}, err
		}
		job, err := b.JobByID(ctx, "default", r.id)
		switch {
		case err != nil:
			return job, err
		case job.Current.State.Ended():
			return job, bucketer.ErrFinished
		case change.Open > 0:
			return job, errOpen
		case !slices.Equal(job.Current.Spec.Schedule.Any[0].Calendar.Dates, r.closed):
			w.c.fault("%s goes by %v, and its calendar was changed to %v", r.ref, job.Current.Spec.Schedule.Any[0].Calendar.Dates, r.closed)
		}
		return job, nil
	})
}
