package schedule

import (
	"fmt"
	"time"
)

// MaxNotes is how many notes are made at most.
const MaxNotes = 20

// Notes returns what changes of the zone's clocks between from and until do to the schedule, in
// order, at most MaxNotes of them: those that move, drop or double runs, such as "the 02:30 run of
// 2026-03-29 moves to 03:00". Times are those of the zone's clock.
func (s *Schedule) Notes(from, until time.Time) []string {
	lo, hi := max(after(from), s.first), min(after(until), s.end)
	if lo >= hi {
		return nil
	}
	if c, ok := s.rhythm.(*timetable); ok {
		return c.notes(ceilDiv(lo, 1000), ceilDiv(hi, 1000))
	}
	several, _ := s.rhythm.(union)
	var notes []string
	for _, r := range several {
		if c, ok := r.(*timetable); ok {
			for _, note := range c.notes(ceilDiv(lo, 1000), ceilDiv(hi, 1000)) {
				notes = append(notes, note+" ("+c.describe()+")")
			}
		}
	}
	return notes[:min(len(notes), MaxNotes)]
}

// notes says what the changes at the instants in [from, before), in s, do.
func (c *timetable) notes(from, before int64) []string {
	var notes []string
	for i := max(1, c.zone.spanAt(from)); i < len(c.zone.spans) && len(notes) < MaxNotes; i++ {
		at := c.zone.spans[i].start
		if at < from {
			continue
		}
		if at >= before {
			break
		}
		// The clock jumps from one wall time to another.
		jumps, lands := c.zone.gap(i)
		var note string
		if jumps < lands {
			note = c.gapNote(jumps, lands)
		} else {
			note = c.overlapNote(lands, jumps)
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// gapNote says what becomes of the times in [out, back), which the clock leaves out; "" if nothing
// is lost.
func (c *timetable) gapNote(out, back wall) string {
	runs := c.runs(out, back)
	switch {
	case runs.count == 0 || c.elapsed && c.steady(back-out):
		return ""
	case c.elapsed:
		return fmt.Sprintf("%s %s not happen: the clock goes from %s to %s", runs, runs.verb("does", "do"), clockOf(out), runs.beside(back))
	case c.skip:
		return fmt.Sprintf("%s %s skipped: the clock goes from %s to %s", runs, runs.verb("is", "are"), clockOf(out), runs.beside(back))
	}
	_, due := c.pattern.next(back, back+1)
	switch {
	case due:
		return fmt.Sprintf("%s %s with that of %s", runs, runs.verb("falls together", "fall together"), runs.beside(back))
	case runs.count == 1:
		return fmt.Sprintf("%s moves to %s", runs, runs.beside(back))
	default:
		return fmt.Sprintf("%s become one at %s", runs, runs.beside(back))
	}
}

// overlapNote says which of the times in [lands, jumps), which the clock shows twice, run twice; ""
// if none.
func (c *timetable) overlapNote(lands, jumps wall) string {
	if !c.elapsed && c.overlap != overlapBoth {
		return ""
	}
	runs := c.runs(lands, jumps)
	if runs.count == 0 || c.elapsed && c.steady(jumps-lands) {
		return ""
	}
	return fmt.Sprintf("%s %s twice", runs, runs.verb("runs", "run"))
}

// steady reports whether an expression that follows elapsed time keeps its pace when the clock
// jumps so far.
func (c *timetable) steady(jump wall) bool {
	everyDay := c.days == daily && c.months == allMonths && c.amended == nil
	return everyDay && c.hours == allHours && (jump%3600 == 0 || c.minutes == allSixty && jump%60 == 0)
}

// daily is every day of every month.
var daily = func() (days [4][daysPerWeek]uint32) {
	p := pattern{}
	p.setDays(func(int, int) uint32 { return allDays })
	return p.days
}()

// runs are the runs of a stretch of wall time, for a note.
type runs struct {
	count       int64
	first, last wall
}

func (c *timetable) runs(from, before wall) runs {
	r := runs{count: c.pattern.count(from, before)}
	if r.count > 0 {
		r.first = c.pattern.nth(from, 1)
		r.last = c.pattern.nth(from, r.count)
	}
	return r
}

// String says "the 02:30 run of 2026-03-29" or "the 4 runs from 02:00 to 02:45 of 2026-03-29".
func (r runs) String() string {
	if r.count == 1 {
		return fmt.Sprintf("the %s run of %s", clockOf(r.first), dateOf(r.first))
	}
	return fmt.Sprintf("the %d runs from %s to %s of %s", r.count, clockOf(r.first), clockOf(r.last), dateOf(r.first))
}

func (r runs) verb(one, many string) string {
	if r.count == 1 {
		return one
	}
	return many
}

// beside writes a time, with its date if it is not that of the runs.
func (r runs) beside(w wall) string {
	if dateOf(w) == dateOf(r.first) {
		return clockOf(w)
	}
	return clockOf(w) + " of " + dateOf(w)
}

func clockOf(w wall) string {
	_, second := w.split()
	return clockTime(second)
}

func dateOf(w wall) string { return time.Unix(int64(w), 0).UTC().Format(time.DateOnly) }
