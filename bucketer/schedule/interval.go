package schedule

import (
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// interval is the instants anchor + k · every, for every whole k, also below 0; both in ms.
type interval struct{ anchor, every int64 }

// compileEvery reads an interval.
func compileEvery(sch schema.Schedule, faults *Faults) rhythm {
	every := sch.Every.Std()
	switch {
	case every < MinEvery || every > MaxEvery:
		faults.add("every", "must be between %v and %v", schema.Duration(MinEvery), schema.Duration(MaxEvery))
	case every%time.Millisecond != 0:
		faults.add("every", "must be a whole number of milliseconds")
	}
	var v interval
	v.every = every.Milliseconds()
	if !sch.Anchor.IsZero() {
		if year := sch.Anchor.UTC().Year(); year < 1 || year > 9999 {
			faults.add("anchor", "must lie in the years 1 to 9999")
		}
		v.anchor = sch.Anchor.UnixMilli()
	}
	if sch.Cron != "" {
		return v // its fault is noted; what belongs to cron is judged there
	}
	for _, f := range []struct{ location, value string }{
		{"timezone", sch.Timezone}, {"gap", sch.Gap}, {"overlap_hour", sch.OverlapHour},
	} {
		if f.value != "" && (f.location != "timezone" || len(sch.Exclude) == 0 && sch.Calendar == nil) {
			faults.add(f.location, "has no meaning for an interval, which follows elapsed time: it belongs to cron")
		}
	}
	if len(sch.Exclude) == 0 && sch.Calendar == nil {
		return v
	}
	days := excluded(&sch, faults)
	var by observed
	if sch.Calendar != nil {
		if by = readCalendar(sch.Calendar, faults); by.moves != 0 {
			faults.add("calendar.on", "must be %s for an interval, which has no time of day to move", schema.OnDateSkip)
		}
		days = slices.Compact(slices.Sorted(slices.Values(slices.Concat(days, by.dates))))
	}
	z, known := zoneNamed(sch.Timezone)
	if !known {
		zoneFault(sch.Timezone, faults)
		return v
	}
	e, ok := exceptDays(v, days, z).(except)
	if !ok {
		return v
	}
	e.days, e.by = excluded(&sch, new(Faults)), by
	return e
}

func (v interval) next(from, before int64) (int64, bool) {
	t := v.anchor + ceilDiv(from-v.anchor, v.every)*v.every
	return t, t < before
}

func (v interval) count(from, before int64) int64 {
	return ceilDiv(before-v.anchor, v.every) - ceilDiv(from-v.anchor, v.every)
}

func (v interval) nth(from, before, n int64) (int64, bool) {
	if n > v.count(from, before) { // also keeps what follows from overflowing
		return 0, false
	}
	first, _ := v.next(from, before)
	return first + (n-1)*v.every, true
}

func (v interval) shortest() time.Duration { return time.Duration(v.every) * time.Millisecond }
