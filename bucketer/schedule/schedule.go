package schedule

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// Bounds of what a schedule may say.
const (
	MinEvery    = time.Second
	MaxEvery    = 10 * 365 * 24 * time.Hour
	MaxJitter   = 24 * time.Hour
	MaxCronText = 255 // bytes
)

// No nominal time lies before 1970 or in 2400 and later. The Gregorian calendar repeats every 400
// years, so what never fires in between never fires.
var (
	epoch   = time.Unix(0, 0).UTC()
	horizon = time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC)

	horizonSeconds = horizon.Unix()
)

// Fault is one thing that is wrong with a schedule.
type Fault struct {
	Location string // the field of the schedule, as in JSON: "cron", "timezone", "every" …
	Message  string // what is wrong, in words that fit behind the location
}

// Faults is everything that is wrong with a schedule, in the order of its fields.
type Faults []Fault

// Error returns the faults in one line.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(fault.Location + " " + fault.Message)
	}
	return b.String()
}

func (f *Faults) add(location, format string, args ...any) {
	*f = append(*f, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
}

// A rhythm is an endless set of instants, in ms since the Unix epoch.
type rhythm interface {
	// next returns the first instant in [from, before).
	next(from, before int64) (int64, bool)
	// count returns how many lie in [from, before).
	count(from, before int64) int64
	// nth returns the n-th in [from, before); n counts from 1.
	nth(from, before, n int64) (int64, bool)
	// shortest returns the shortest distance of two.
	shortest() time.Duration
	// describe says in words when it fires.
	describe() string
}

// Schedule is a schedule that was checked. It never changes and may be used by many goroutines; the
// zero value has no times.
type Schedule struct {
	rhythm rhythm
	// Nominal times lie in [first, end): ms since the Unix epoch.
	first, end int64
	start      time.Time // as stated
	stop       time.Time // end as stated
	offset     time.Duration
}

// Compile checks sch and makes it ready to use. The seed, 62 random bits of the job such as
// schema.HashOf of its id, is what H in a cron expression and the jitter's offset are drawn from:
// the same seed gives the same times for ever. The error is a Faults, with every fault. A schedule
// without a single nominal time is a fault.
func Compile(sch schema.Schedule, seed uint64) (*Schedule, error) {
	return compile(sch, seed, func(field int) uint64 { return mix(seed, uint64(field)) }) // #nosec G115 -- below 6
}

// compile is Compile with the numbers that H in each field of a cron expression is drawn from.
func compile(sch schema.Schedule, seed uint64, drawn func(field int) uint64) (*Schedule, error) {
	var faults Faults
	s := &Schedule{end: horizon.UnixMilli(), start: sch.Start, stop: sch.End}

	if len(sch.Any) > 0 && sch.Cron == "" && sch.Every == 0 {
		s.rhythm = compileAny(sch, drawn, &faults)
	} else {
		s.rhythm = compileOne(sch, drawn, &faults)
	}
	s.bound(sch, &faults)

	window := sch.Jitter.Std()
	switch {
	case window < 0 || window > MaxJitter:
		faults.add("jitter", "must be between 0s and %v", schema.Duration(MaxJitter))
	case window%time.Millisecond != 0:
		faults.add("jitter", "must be a whole number of milliseconds")
	case window > 0:
		s.offset = time.Duration(seed%uint64(window.Milliseconds())) * time.Millisecond // #nosec G115 -- below a day
	}

	if len(faults) == 0 {
		if _, ok := s.next(0); !ok {
			faults.add(s.silence(sch))
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return s, nil
}

// compileOne reads a cron expression or an interval.
func compileOne(sch schema.Schedule, drawn func(field int) uint64, faults *Faults) (r rhythm) {
	switch {
	case sch.Cron != "" && sch.Every != 0:
		faults.add("every", "cannot be stated beside cron: a schedule has one of the two")
	case sch.Cron == "" && sch.Every == 0:
		faults.add("cron", "is missing, and so is every: a schedule has one of the two")
	}
	if sch.Cron != "" {
		r = compileCron(sch, drawn, faults)
	}
	if sch.Every != 0 {
		r = compileEvery(sch, faults)
	}
	return r
}

// bound reads start and end.
func (s *Schedule) bound(sch schema.Schedule, faults *Faults) {
	if !sch.Start.IsZero() {
		switch {
		case !sch.Start.Before(horizon):
			faults.add("start", "must lie before the year %d", horizon.Year())
		case sch.Start.After(epoch):
			s.first = ceilMilli(sch.Start)
		}
	}
	if !sch.End.IsZero() {
		switch {
		case !sch.Start.IsZero() && !sch.End.After(sch.Start):
			faults.add("end", "must be later than start")
		case !sch.End.After(epoch):
			faults.add("end", "must lie after the year %d", epoch.Year()-1)
		case sch.End.Before(horizon):
			s.end = ceilMilli(sch.End)
		}
	}
}

// silence returns the fault of a schedule that names no time.
func (s *Schedule) silence(sch schema.Schedule) (location, message string) {
	location = "cron"
	switch {
	case sch.Listed:
		location = "any"
	case len(sch.Any) > 0 && sch.Any[0].Cron == "", len(sch.Any) == 0 && sch.Cron == "":
		location = "every"
	}
	if _, ok := s.rhythm.next(0, horizon.UnixMilli()); !ok {
		return location, "never fires: no day matches it"
	}
	return location, "never fires between start and end"
}

// Next returns the first nominal time strictly after t, in UTC and in whole ms, or false if there
// is none: the end is reached, or no further time exists.
func (s *Schedule) Next(t time.Time) (time.Time, bool) {
	ms, ok := s.next(after(t))
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).UTC(), true
}

// next returns the first nominal time in ms at or after from.
func (s *Schedule) next(from int64) (int64, bool) {
	from = max(from, s.first)
	if from >= s.end || s.rhythm == nil {
		return 0, false
	}
	return s.rhythm.next(from, s.end)
}

// From returns the nominal times strictly after t, in order. It may yield very many: the caller
// stops it.
func (s *Schedule) From(t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for from := after(t); ; {
			ms, ok := s.next(from)
			if !ok || !yield(time.UnixMilli(ms).UTC()) {
				return
			}
			from = ms + 1
		}
	}
}

// Count returns how many nominal times lie in (from, to], or limit if there are more. Its work does
// not depend on their number, unless the schedule has several: then all but those of the densest
// are looked at, if they are at most maxWalked. Otherwise those that two of them name count twice.
func (s *Schedule) Count(from, to time.Time, limit int) int {
	return int(min(s.count(after(from), after(to)), int64(max(limit, 0))))
}

// Last returns the last nominal time in (from, to], or false if there is none. Its work does not
// depend on their number.
func (s *Schedule) Last(from, to time.Time) (time.Time, bool) {
	lo, hi := after(from), after(to)
	if u, ok := s.rhythm.(union); ok {
		ms, ok := u.last(max(lo, s.first), min(hi, s.end))
		if !ok {
			return time.Time{}, false
		}
		return time.UnixMilli(ms).UTC(), true
	}
	return s.nth(lo, hi, s.count(lo, hi))
}

// Nth returns the n-th nominal time of a schedule that has a start, counted from it: the first at
// or after the start is 1. Without a start, or if there are fewer, it returns false. NthAfter
// counts from another time.
func (s *Schedule) Nth(n int) (time.Time, bool) {
	if s.start.IsZero() {
		return time.Time{}, false
	}
	return s.nth(s.first, s.end, int64(n))
}

// NthAfter returns the n-th nominal time strictly after t, or false if there are fewer. NthAfter(t,
// 1) is Next(t). Its work does not depend on n, unless the schedule has several: these are walked.
// The end that max_runs comes to is one ms after it, since End is exclusive.
func (s *Schedule) NthAfter(t time.Time, n int) (time.Time, bool) {
	return s.nth(after(t), s.end, int64(n))
}

func (s *Schedule) count(from, before int64) int64 {
	from, before = max(from, s.first), min(before, s.end)
	if from >= before || s.rhythm == nil {
		return 0
	}
	return s.rhythm.count(from, before)
}

func (s *Schedule) nth(from, before, n int64) (time.Time, bool) {
	from, before = max(from, s.first), min(before, s.end)
	if n < 1 || from >= before || s.rhythm == nil {
		return time.Time{}, false
	}
	ms, ok := s.rhythm.nth(from, before, n)
	if !ok {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).UTC(), true
}

// Offset returns what the jitter adds to every nominal time to make its due time: seed mod window,
// in whole ms, so a job's runs keep their order. It is 0 without jitter.
func (s *Schedule) Offset() time.Duration { return s.offset }

// Shortest returns the shortest distance of two consecutive nominal times: of an interval exactly,
// of a cron expression that of the wall clock, which a change of offset may undercut (what fires
// but once in 40 years counts as firing every 40).
func (s *Schedule) Shortest() time.Duration {
	if s.rhythm == nil {
		return 0
	}
	return s.rhythm.shortest()
}

// DefaultJitter returns the window of a job that states none: 10 s, but never more than a tenth of
// the shortest distance of its runs; in whole ms.
func DefaultJitter(shortest time.Duration) time.Duration {
	return min(10*time.Second, max(shortest, 0)/10).Truncate(time.Millisecond)
}

// after returns the first ms later than t, at least 0 and at most the horizon's.
func after(t time.Time) int64 {
	switch {
	case t.Before(epoch):
		return 0
	case t.Before(horizon):
		return t.UnixMilli() + 1
	default:
		return horizon.UnixMilli()
	}
}

// ceilMilli returns the first ms at or after t.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// floorDiv and ceilDiv divide by a positive number and round down and up.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
