package schedule

import (
	"time"

	"carillon.dev/carillon/schema"
)

// What a fixed time does that the zone has twice.
const (
	overlapFirst  = "first"
	overlapSecond = "second"
	overlapBoth   = "both"
)

// What a fixed time does that the zone leaves out.
const (
	gapRun  = "run"
	gapSkip = "skip"
)

// timetable is a cron expression in a zone. Its instants are whole seconds.
type timetable struct {
	pattern
	zone *zone
	// elapsed: the expression follows elapsed time; the other two say nothing then.
	elapsed bool
	skip    bool // gap: skip
	overlap string
	rule    dayRule
	without []int64 // days that are excluded, since 1970-01-01
	observed
}

// compileCron reads a cron expression and its zone.
func compileCron(sch schema.Schedule, drawn func(field int) uint64, faults *Faults) rhythm {
	e := parseCron(sch.Cron, drawn, faults)
	c := &timetable{pattern: e.pattern, elapsed: e.elapsed, rule: e.rule, skip: sch.Gap == gapSkip, overlap: sch.OverlapHour}
	var known bool
	if c.zone, known = zoneNamed(sch.Timezone); !known {
		zoneFault(sch.Timezone, faults)
	}
	switch sch.Gap {
	case "", gapRun, gapSkip:
	default:
		faults.add("gap", "must be %s or %s", gapRun, gapSkip)
	}
	switch sch.OverlapHour {
	case "":
		c.overlap = overlapFirst
	case overlapFirst, overlapSecond, overlapBoth:
	default:
		faults.add("overlap_hour", "must be %s, %s or %s", overlapFirst, overlapSecond, overlapBoth)
	}
	if !sch.Anchor.IsZero() {
		faults.add("anchor", "has no meaning for a cron expression: it belongs to every")
	}
	c.without = excluded(&sch, faults)
	c.observe(sch.Calendar, faults)
	return c
}

func zoneFault(name string, faults *Faults) {
	if len(name) <= maxZoneName {
		if known, ok := spelling(name); ok {
			faults.add("timezone", "must be written %q", known)
			return
		}
	}
	faults.add("timezone", "must be a name of the IANA time zone database, such as %q", "Europe/Berlin")
}

// maxZoneName is longer than every zone's name, in bytes.
const maxZoneName = 64

// firing is what of a stretch of one span is fired at: the stretch's first instant, if it stands
// for times that the zone leaves out, and after it every match of the wall clock in [from, before).
type firing struct {
	gap          bool
	from, before wall
}

// firing returns what is fired at in those instants of span i that lie in [from, before), in s.
func (c *timetable) firing(i int, from, before int64) firing {
	s := &c.zone.spans[i]
	first, end := max(from, s.start), min(before, c.zone.end(i))
	f := firing{from: wall(first + s.offset), before: wall(end + s.offset)}
	if c.elapsed || first >= end {
		return f
	}
	switch c.overlap {
	case overlapFirst:
		f.from = max(f.from, s.fresh)
	case overlapSecond:
		f.before = min(f.before, s.again)
	}
	if first == s.start && !c.skip {
		if out, back := c.zone.gap(i); out < back {
			if _, f.gap = c.pattern.next(out, back); f.gap {
				// a time that is due at the gap's end anyway is the same instant
				f.from = max(f.from, back+1)
			}
		}
	}
	return f
}

// gap returns the wall times [out, back) that the change at the start of span i leaves out; out ≥
// back if there are none.
func (z *zone) gap(i int) (out, back wall) {
	if i == 0 {
		return 0, 0
	}
	start := z.spans[i].start
	return wall(start + z.spans[i-1].offset), wall(start + z.spans[i].offset)
}

func (f firing) count(p *pattern) int64 {
	n := p.count(f.from, f.before)
	if f.gap {
		n++
	}
	return n
}

func (c *timetable) next(from, before int64) (int64, bool) {
	lo, hi := ceilDiv(from, 1000), ceilDiv(before, 1000)
	for i := c.zone.spanAt(lo); i < len(c.zone.spans); i++ {
		s := &c.zone.spans[i]
		if s.start >= hi {
			break
		}
		f := c.firing(i, lo, hi)
		if f.gap {
			return s.start * 1000, true
		}
		if w, ok := c.pattern.next(f.from, f.before); ok {
			return (int64(w) - s.offset) * 1000, true
		}
	}
	return 0, false
}

func (c *timetable) count(from, before int64) int64 {
	lo, hi := ceilDiv(from, 1000), ceilDiv(before, 1000)
	var n int64
	for i := c.zone.spanAt(lo); i < len(c.zone.spans) && c.zone.spans[i].start < hi; i++ {
		n += c.firing(i, lo, hi).count(&c.pattern)
	}
	return n
}

func (c *timetable) nth(from, before, n int64) (int64, bool) {
	lo, hi := ceilDiv(from, 1000), ceilDiv(before, 1000)
	for i := c.zone.spanAt(lo); i < len(c.zone.spans) && c.zone.spans[i].start < hi; i++ {
		s := &c.zone.spans[i]
		f := c.firing(i, lo, hi)
		here := f.count(&c.pattern)
		if n > here {
			n -= here
			continue
		}
		if f.gap {
			if n == 1 {
				return s.start * 1000, true
			}
			n--
		}
		return (int64(c.pattern.nth(f.from, n)) - s.offset) * 1000, true
	}
	return 0, false
}

func (c *timetable) shortest() time.Duration {
	return time.Duration(c.pattern.shortest()) * time.Second
}

// setDays fills in the days of every kind of month.
func (p *pattern) setDays(match func(length, weekday int) uint32) {
	for length := 28; length <= 31; length++ {
		for weekday := range daysPerWeek {
			all := uint32(below(int64(length))) << 1
			p.days[length-28][weekday] = match(length, weekday) & all
		}
	}
}
