package client

import (
	"fmt"
	"time"
)

// Schedule says when the runs of a job or a workflow are due. Cron and Every make one.
type Schedule struct {
	notes
	says       ScheduleInfo
	start, end time.Time
	maxRuns    int
	jitter     *Duration
	any        []ScheduleInfo // several, instead of says
}

// Cron returns the schedule of a cron expression of 5 or 6 fields in a time zone, such as
// "Europe/Berlin". A time zone of "" is UTC. Times that a change of clocks leaves out run at the
// change; of those that it has twice the first counts.
func Cron(expression, timezone string) *Schedule {
	s := new(Schedule)
	s.says.Cron, s.says.Timezone = s.text("schedule.cron", expression), timezone
	return s
}

// Every returns the schedule of an interval. It is counted from the creation of the job, unless it
// has an Anchor.
func Every(interval time.Duration) *Schedule {
	s := new(Schedule)
	s.says.Every = s.span("schedule.every", interval)
	return s
}

// AnyOf returns the schedule that is due when any of several is, once at each instant: at most 8,
// each with a time zone of its own. What they say of start, end, number of runs and jitter does not
// count: say it of what AnyOf returns.
func AnyOf(schedules ...*Schedule) *Schedule {
	s := &Schedule{any: []ScheduleInfo{}}
	for i, one := range schedules {
		if one == nil || one.any != nil {
			s.fault(fmt.Sprintf("schedules[%d]", i), "must be a schedule of Cron or Every")
			continue
		}
		s.take("", &one.notes)
		s.any = append(s.any, one.says)
	}
	if len(schedules) == 0 {
		s.fault("schedules", "must hold at least one schedule")
	}
	return s
}

// Exclude has the schedule not be due on dates of its time zone, such as "2026-12-25". More may be
// added.
func (s *Schedule) Exclude(dates ...string) *Schedule {
	s.says.Exclude = append(s.says.Exclude, dates...)
	return s
}

// OnDate is what a schedule does on a date of its calendar.
type OnDate string

// What a schedule does on a date of its calendar. An interval can only skip.
const (
	SkipDate    OnDate = "skip"         // it is not due then; the default
	NextDay     OnDate = "next_day"     // due at its time of day on the next day that is none of the dates
	PreviousDay OnDate = "previous_day" // … on the day before that is none of them
)

// Calendar says what the schedule does on the dates of a calendar: see Calendars.
func (s *Schedule) Calendar(name string, on OnDate) *Schedule {
	s.says.Calendar = &ScheduleCalendar{Name: s.text("schedule.calendar.name", name), On: on}
	return s
}

// Timezone says of which time zone the excluded dates of an interval are. Cron has it state its
// own.
func (s *Schedule) Timezone(name string) *Schedule {
	s.says.Timezone = s.text("schedule.timezone", name)
	return s
}

// SkipGap has times not run that a change of clocks leaves out. It goes with Cron.
func (s *Schedule) SkipGap() *Schedule {
	s.says.Gap = "skip"
	return s
}

// Overlap says which of the times count that a change of clocks has twice.
type Overlap string

// The overlaps.
const (
	FirstOfTwo  Overlap = "first" // the default
	SecondOfTwo Overlap = "second"
	BothOfTwo   Overlap = "both"
)

// Overlap says which of the times count that a change of clocks has twice. It goes with Cron.
func (s *Schedule) Overlap(which Overlap) *Schedule {
	s.says.OverlapHour = s.text("schedule.overlap_hour", string(which))
	return s
}

// Anchor states an instant from which the others are counted. It goes with Every.
func (s *Schedule) Anchor(t time.Time) *Schedule {
	s.says.Anchor = s.instant("schedule.anchor", t)
	return s
}

// Start has no run be due before t.
func (s *Schedule) Start(t time.Time) *Schedule {
	s.start = s.instant("start", t)
	return s
}

// End has no run be due at t or later.
func (s *Schedule) End(t time.Time) *Schedule {
	s.end = s.instant("end", t)
	return s
}

// MaxRuns ends the schedule after so many times.
func (s *Schedule) MaxRuns(number int) *Schedule {
	s.maxRuns = s.number("max_runs", number)
	return s
}

// Jitter states the window over which the offset of the job is drawn, which is the same for all its
// runs; 0 means none.
func (s *Schedule) Jitter(window time.Duration) *Schedule {
	d := Duration(window)
	s.jitter = &d
	return s
}

// OnOption says more about the events that start runs: Filter or Delay.
type OnOption interface {
	ofTrigger(t *EventTrigger, n *notes)
}

// WaitOption says more about the event that a step waits for: Filter or WaitDeadline.
type WaitOption interface {
	ofWait(w *waitBody, n *notes)
}

// EventFilter is what Filter returns.
type EventFilter string

// Filter has only those events count of which a CEL expression is true, such as
// "event.region == 'eu'". The expression of a step also sees input, the payload of the run.
func Filter(expression string) EventFilter { return EventFilter(expression) }

func (f EventFilter) ofTrigger(t *EventTrigger, n *notes) {
	t.Filter = n.text("on.filter", string(f))
}

func (f EventFilter) ofWait(w *waitBody, n *notes) {
	w.Filter = n.text("wait.filter", string(f))
}

type delay time.Duration

// Delay has a run be due so long after its event.
func Delay(d time.Duration) OnOption { return delay(d) }

func (d delay) ofTrigger(t *EventTrigger, _ *notes) { t.Delay = Duration(d) }

type waitDeadline time.Duration

// WaitDeadline has a step fail whose event has not come after so long.
func WaitDeadline(d time.Duration) WaitOption { return waitDeadline(d) }

func (d waitDeadline) ofWait(w *waitBody, n *notes) {
	w.Deadline = n.span("wait.deadline", time.Duration(d))
}
