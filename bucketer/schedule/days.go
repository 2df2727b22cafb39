package schedule

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"carillon.dev/carillon/schema"
)

// amendment is what a month has else than the pattern of an expression says: days 1 to 31, as bits.
type amendment struct{ without, with uint32 }

// amend leaves days out of a pattern, and adds others that have its times of day. Days count since
// 1970-01-01. A day that is in both is left out.
func (p *pattern) amend(without, with []int64) {
	if len(without)+len(with) == 0 {
		return
	}
	p.amended = make(map[int64]amendment)
	for k, days := range [][]int64{without, with} {
		for _, day := range days {
			m, number := monthOf(day)
			a := p.amended[m.first]
			if k == 0 {
				a.without |= 1 << number
			} else {
				a.with |= 1 << number
			}
			p.amended[m.first] = a
		}
	}
}

// parseDates reads dates, such as "2026-12-25", as days since 1970-01-01, in order.
func parseDates(location string, dates []string, faults *Faults) []int64 {
	days := make([]int64, 0, len(dates))
	for _, text := range dates {
		day, ok := DayOf(text)
		if !ok {
			faults.add(location, "holds %q, which is no date such as \"2026-12-25\" of the years 1970 to 2399", text)
			continue
		}
		days = append(days, day)
	}
	slices.Sort(days)
	return slices.Compact(days)
}

// DayOf returns a date, such as "2026-12-25", as days since 1970-01-01; false: it is none of the
// years 1970 to 2399.
func DayOf(date string) (int64, bool) {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil || t.Before(epoch) || !t.Before(horizon) {
		return 0, false
	}
	return t.Unix() / secondsPerDay, true
}

// dateText is the inverse of DayOf.
func dateText(day int64) string { return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly) }

// excluded returns the dates that a schedule excludes.
func excluded(sch *schema.Schedule, faults *Faults) []int64 {
	if len(sch.Exclude) > MaxDates {
		faults.add("exclude", "must be at most %d dates", MaxDates)
		return nil
	}
	return parseDates("exclude", sch.Exclude, faults)
}

// observed is what a schedule does on the dates of a calendar.
type observed struct {
	calendar string  // its name; "": there is none
	dates    []int64 // days since 1970-01-01, in order
	moves    int64   // 0: it is not due then; 1: on the next day, -1: on the day before
}

func readCalendar(c *schema.ScheduleCalendar, faults *Faults) observed {
	o := observed{calendar: c.Name, dates: parseDates("calendar", c.Dates, faults)}
	switch c.On {
	case "", schema.OnDateSkip:
	case schema.OnDateNext:
		o.moves = 1
	case schema.OnDatePrevious:
		o.moves = -1
	default:
		faults.add("calendar.on", "must be %s, %s or %s", schema.OnDateSkip, schema.OnDateNext, schema.OnDatePrevious)
	}
	return o
}

// observe has the timetable leave out the dates that are excluded and those of a calendar. What is
// due on a date of the calendar moves, at its time of day, over all dates of the calendar to the
// next one that is none of them, or to the one before. What is excluded does not move, and nothing
// moves there.
func (c *timetable) observe(cal *schema.ScheduleCalendar, faults *Faults) {
	if cal == nil {
		c.amend(c.without, nil)
		return
	}
	c.observed = readCalendar(cal, faults)
	var with []int64
	for _, day := range c.dates {
		if _, not := slices.BinarySearch(c.without, day); not || c.moves == 0 || !c.matches(day) {
			continue
		}
		to := day
		for is := true; is; _, is = slices.BinarySearch(c.dates, to) {
			to += c.moves
		}
		with = append(with, to)
	}
	c.amend(slices.Concat(c.without, c.dates), with)
}

// matches reports whether a day is one of the pattern.
func (p *pattern) matches(day int64) bool {
	m, number := monthOf(day)
	return p.daysIn(m)>>number&1 != 0
}

// words says what it does.
func (o *observed) words() string {
	switch {
	case o.calendar == "":
		return ""
	case o.moves > 0:
		return ", on dates of " + o.calendar + " on the next day that is none"
	case o.moves < 0:
		return ", on dates of " + o.calendar + " on the day before that is none"
	}
	return ", but not on dates of " + o.calendar
}

// except is a rhythm without the instants of some stretches.
type except struct {
	rhythm
	out  []stretch // in order; they do not touch
	days []int64   // what the stretches are, in words
	by   observed
	zone string
}

// stretch is the instants in [from, before), in ms.
type stretch struct{ from, before int64 }

// exceptDays leaves out of a rhythm what happens while a clock in the zone shows one of the days.
func exceptDays(r rhythm, days []int64, z *zone) rhythm {
	if len(days) == 0 {
		return r
	}
	e := except{rhythm: r, days: days, zone: z.name}
	for i := range z.spans {
		s := &z.spans[i]
		shows, until := wall(s.start+s.offset), wall(z.end(i)+s.offset)
		first := sort.Search(len(days), func(k int) bool { return wall((days[k]+1)*secondsPerDay) > shows })
		for _, day := range days[first:] {
			from, before := max(wall(day*secondsPerDay), shows), min(wall((day+1)*secondsPerDay), until)
			if from >= until {
				break
			}
			e.out = append(e.out, stretch{(int64(from) - s.offset) * 1000, (int64(before) - s.offset) * 1000})
		}
	}
	slices.SortFunc(e.out, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	joined := e.out[:0]
	for _, s := range e.out {
		if n := len(joined); n > 0 && s.from <= joined[n-1].before {
			joined[n-1].before = max(joined[n-1].before, s.before)
			continue
		}
		joined = append(joined, s)
	}
	e.out = joined
	return e
}

// from returns the stretches that end after t.
func (e except) from(t int64) []stretch {
	return e.out[sort.Search(len(e.out), func(i int) bool { return e.out[i].before > t }):]
}

func (e except) next(from, before int64) (int64, bool) {
	out := e.from(from)
	for {
		t, ok := e.rhythm.next(from, before)
		if !ok {
			return 0, false
		}
		for len(out) > 0 && out[0].before <= t {
			out = out[1:]
		}
		if len(out) == 0 || t < out[0].from {
			return t, true
		}
		from = out[0].before
		if from >= before {
			return 0, false
		}
	}
}

func (e except) count(from, before int64) int64 {
	if from >= before {
		return 0
	}
	n := e.rhythm.count(from, before)
	for _, s := range e.from(from) {
		if s.from >= before {
			break
		}
		n -= e.rhythm.count(max(s.from, from), min(s.before, before))
	}
	return n
}

func (e except) nth(from, before, n int64) (int64, bool) {
	for _, s := range e.from(from) {
		if s.from >= before {
			break
		}
		if s.from > from {
			here := e.rhythm.count(from, s.from)
			if n <= here {
				return e.rhythm.nth(from, s.from, n)
			}
			n -= here
		}
		from = max(from, s.before)
	}
	if from >= before {
		return 0, false
	}
	return e.rhythm.nth(from, before, n)
}

func (e except) describe() string {
	text := e.rhythm.describe() + butNot(e.days) + e.by.words()
	if e.zone != "UTC" {
		text += " in " + e.zone
	}
	return text
}

// butNot says which days are left out.
func butNot(days []int64) string {
	if len(days) == 0 {
		return ""
	}
	listed := days
	if len(days) > maxListed+1 {
		listed = days[:maxListed]
	}
	var words []string
	for _, day := range listed {
		words = append(words, dateText(day))
	}
	if more := len(days) - len(listed); more > 0 {
		words = append(words, plural(more, "more date"))
	}
	return ", but not on " + joined(words, ", ")
}
