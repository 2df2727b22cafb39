package recurring

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// calendar writes the dates of a calendar, so many days from today.
func (w *world) calendar(name string, days ...int) CalendarChange {
	w.T.Helper()
	c := schema.Calendar{Tenant: "t", Name: name}
	for _, n := range days {
		c.Dates = append(c.Dates, time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly))
	}
	change, err := w.PutCalendar(w.T.Context(), c)
	if err != nil {
		w.T.Fatalf("PutCalendar(%s) = %v", name, err)
	}
	return change
}

// daily is due at noon of each day, on dates of a calendar as stated.
func daily(calendar, on string) schema.JobSpec {
	spec := every(time.Hour)
	spec.Schedule = &schema.Schedule{Any: []schema.Schedule{{Cron: "0 12 * * *", Calendar: &schema.ScheduleCalendar{Name: calendar, On: on}}}}
	spec.JitterStated = true
	return spec
}

// days returns on how many days from the beginning of the test the next runs of a job are.
func (w *world) days(job schema.Job, began time.Time, count int) (days []int) {
	for _, next := range w.Upcoming(job, count, time.Now()) {
		days = append(days, int(next.Nominal.Sub(began)/(24*time.Hour)))
	}
	return days
}

// TestACalendarChangesItsJobs: the jobs that use it go by its dates when the change is answered,
// and it is not deleted as long as one does.
func TestACalendarChangesItsJobs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		began := time.Now().UTC().Truncate(24 * time.Hour)
		is := func(when string, job schema.Job, want ...int) {
			t.Helper()
			if job = w.stored(job.ID); !slices.Equal(w.days(job, began, len(want)), want) {
				t.Errorf("%s it is due on days %v, want %v", when, w.days(job, began, len(want)), want)
			}
		}
		if c := w.calendar("closed", 1, 2); !c.Created || c.Jobs != 0 {
			t.Errorf("a new calendar: %+v", c)
		}
		skips, moves := w.job(daily("closed", "")), w.job(daily("closed", schema.OnDateNext))
		other := w.job(every(time.Hour))
		is("made to skip,", skips, 0, 3, 4)
		is("made to move,", moves, 0, 3, 4)
		time.Sleep(time.Minute)
		if c := w.calendar("closed", 3); c.Created || c.Jobs != 2 || c.Open != 0 {
			t.Errorf("a change: %+v, want two jobs and none open", c)
		}
		time.Sleep(5 * time.Second)
		is("changed to skip,", skips, 0, 1, 2, 4)
		is("changed to move,", moves, 0, 1, 2, 4)
		if got := w.stored(other.ID); got.Before != nil {
			t.Error("a job that does not use the calendar was changed")
		}
		var used *CalendarInUseError
		if _, err := w.DeleteCalendar(t.Context(), "t", "closed"); !errors.As(err, &used) || len(used.Jobs) != 2 || used.More {
			t.Errorf("DeleteCalendar in use = %v, want it to name two jobs", err)
		}
		if _, err := w.ChangeJob(t.Context(), "t", skips.ID, 0, func(s *schema.JobSpec) error {
			*s = every(time.Hour)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.CancelJob(t.Context(), "t", moves.ID, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.DeleteCalendar(t.Context(), "t", "closed"); err != nil {
			t.Errorf("DeleteCalendar = %v", err)
		}
		if _, err := w.DeleteCalendar(t.Context(), "t", "closed"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("DeleteCalendar again = %v, want ErrNotFound", err)
		}
		var faults bucketer.Faults
		if _, _, err := w.CreateJob(t.Context(), daily("closed", ""), "", ""); !errors.As(err, &faults) || faults[0].Location != "body.schedule.calendar.name" {
			t.Errorf("CreateJob with a calendar that is not there = %v, want a fault of its name", err)
		}
	})
}

// TestAChangeOfACalendarThatWasCutShort: Mend has the jobs changed that the change left out.
func TestAChangeOfACalendarThatWasCutShort(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = w.jobs.Watch(ctx) }()
		began := time.Now().UTC().Truncate(24 * time.Hour)
		w.calendar("closed", 1)
		job := w.job(daily("closed", ""))
		var down atomic.Bool
		down.Store(true)
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			return schematest.Fault{Fail: down.Load() && op == "SwapJob"}
		})
		if c := w.calendar("closed", 2); c.Jobs != 1 || c.Open != 1 {
			t.Errorf("a change that is cut short: %+v, want one job, which is open", c)
		}
		if got := w.days(w.stored(job.ID), began, 2); !slices.Equal(got, []int{0, 2}) {
			t.Errorf("the job is due on days %v, want 0 and 2 by the old dates", got)
		}
		down.Store(false)
		if _, err := w.Mend(t.Context(), job.ID.Shard(), schema.JobID{}, 100, time.Now()); err != nil {
			t.Fatalf("Mend = %v", err)
		}
		time.Sleep(10 * time.Second)
		if got := w.days(w.stored(job.ID), began, 2); !slices.Equal(got, []int{0, 1}) {
			t.Errorf("after Mend the job is due on days %v, want 0 and 1 by the new dates", got)
		}
		generation := w.stored(job.ID).Current.Number
		if _, err := w.Mend(t.Context(), job.ID.Shard(), schema.JobID{}, 100, time.Now()); err != nil {
			t.Fatalf("Mend = %v", err)
		}
		time.Sleep(10 * time.Second)
		if got := w.stored(job.ID).Current.Number; got != generation {
			t.Error("Mend changed a job that goes by the dates of its calendar")
		}
	})
}
