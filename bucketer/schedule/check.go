package schedule

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// MaxAhead is how many years at most lie between two consecutive nominal times, and from now to the
// first: a run is written when the one before it starts, and no row lives longer than 20 years
// (Cassandra's bound on a TTL).
const MaxAhead = 10

const (
	// looked is for how many years ahead the distances of nominal times are looked at: longer than
	// any stretch after which the calendar gives the same distances again (28 years, or 40 over a
	// year such as 2100).
	looked = 100
	// maxDraws bounds the draws of days that are looked at.
	maxDraws = 400
	// gapHours is how many hours of a day a change of clocks may touch.
	gapHours = 3
	// daysLooked is at how many days a first one is looked for on which the clocks do not change.
	daysLooked = 64
)

// Check checks a schedule at now for a job whose seed is not known yet. It checks what Compile
// checks, and for every seed that there is a time to come within MaxAhead years, and then another
// one in time, until the end. The error is a Faults, with every fault. The location of a fault of
// the whole schedule is "".
//
// If H is drawn, it rather refuses: there must be time between now (or the start) and the end
// whatever is drawn.
func Check(sch schema.Schedule, now time.Time) error {
	if len(sch.Any) > 0 && sch.Cron == "" && sch.Every == 0 {
		return checkAny(sch, now)
	}
	places, hashes := hashedPlaces(sch.Cron)
	if !hashes {
		return check(sch, now, draw{}, 0)
	}
	slack := 24 * time.Hour // of a time of day
	if hasHash(places[fieldWeekday]) {
		slack += 7 * 24 * time.Hour
	}
	if hasHash(places[fieldDay]) {
		slack += 31 * 24 * time.Hour
	}
	draws, faults := drawsOf(places, drawnDays(places))
	for _, d := range draws {
		if err := check(sch, now, d, slack); err != nil {
			return err
		}
	}
	if len(faults) == 0 && !sch.End.IsZero() { // each draw of the days has few of them
		draws, faults = drawsOf(places, []int{fieldMonth, fieldDay, fieldWeekday})
	}
	if len(faults) > 0 {
		return faults
	}
	for _, d := range draws {
		if err := clockChanges(sch, places, d, now, slack); err != nil {
			return err
		}
	}
	return nil
}

// draw is what H is drawn from in each field.
type draw [fieldCount]uint64

func (d draw) of(field int) uint64 { return d[field] }

// check checks one draw of a schedule. slack is by how much another draw of the same days may
// differ; 0: there is no other.
func check(sch schema.Schedule, now time.Time, d draw, slack time.Duration) error {
	s, err := compile(sch, 0, d.of)
	if err != nil {
		return err
	}
	because := ""
	if slack > 0 {
		because = " for some draws of H"
	}
	var faults Faults
	first, ok := s.Next(now)
	if ok && slack > 0 { // a draw that is past already has its turn the next time
		if first, ok = s.Next(first.Add(24 * time.Hour)); ok {
			ok = first.Add(slack).UnixMilli() < s.end
		}
	}
	if !ok {
		faults.add("", "names no time from now on%s", because)
		return faults
	}
	if since, until, ok := s.idle(now, slack, func(time.Time) bool { return false }); ok {
		faults.add("", "names no time between %s and %s%s: at most %d years may lie between two",
			since.UTC().Format(time.DateOnly), until.Format(time.DateOnly), because, MaxAhead)
		return faults
	}
	return nil
}

// idle returns the first stretch of more than MaxAhead years less slack from t on, within the next
// `looked` years, after which another nominal time comes; false if there is none. Times that are
// left out do not count. Its work does not depend on how many times there are, if few are left out.
func (s *Schedule) idle(t time.Time, slack time.Duration, leftOut func(time.Time) bool) (since, until time.Time, found bool) {
	for stop := t.AddDate(looked, 0, 0); t.Before(stop); {
		limit := t.AddDate(MaxAhead, 0, 0).Add(-slack)
		if near, ok := s.Next(t.AddDate(MaxAhead-1, 0, 0)); ok && !near.After(limit) && !leftOut(near) {
			// so there is none in between either
			t = near
			continue
		}
		last, ok := s.Last(t, limit)
		for ok && leftOut(last) {
			last, ok = s.Last(t, last.Add(-time.Millisecond))
		}
		if !ok {
			until, found = s.Next(limit)
			for n := 0; found && leftOut(until) && n < daysLooked; n++ {
				until, found = s.Next(until)
			}
			return t, until, found
		}
		t = last
	}
	return t, t, false
}

// clockChanges checks one draw of a schedule of which a change of clocks may leave out times: as if
// it left out all of each day on which the zone changes its clocks, since the time of day may be
// drawn. On any other day the schedule fires, whatever is drawn.
func clockChanges(sch schema.Schedule, places [fieldCount]string, d draw, now time.Time, slack time.Duration) error {
	drawn, err := compile(sch, 0, d.of)
	if err != nil {
		return err
	}
	table, isCron := drawn.rhythm.(*timetable)
	switch {
	case !isCron, !table.elapsed && !table.skip: // it leaves nothing out
		return nil
	case table.elapsed && bits.OnesCount64(table.hours) > gapHours:
		return nil
	}
	places[fieldSecond], places[fieldMinute], places[fieldHour] = "0", "0", "12"
	sch.Cron, sch.Gap = strings.Join(places[:], " "), gapRun
	noons, err := compile(sch, 0, d.of)
	if err != nil {
		return err
	}
	leftOut := func(noon time.Time) bool {
		at := noon.Unix()
		return table.zone.spanAt(at-secondsPerDay*3/2) != table.zone.spanAt(at+secondsPerDay*3/2)
	}
	first, ok := noons.Next(now)
	for n := 0; ok && leftOut(first) && n < daysLooked; n++ {
		first, ok = noons.Next(first)
	}
	var faults Faults
	switch {
	case !ok, leftOut(first):
		faults.add("cron", "may never fire: H may draw a time that %s leaves out on each of its days", sch.Timezone)
		return faults
	case first.After(now.AddDate(MaxAhead, 0, 0).Add(-slack)):
	default:
		if _, _, far := noons.idle(first, slack, leftOut); !far {
			return nil
		}
	}
	faults.add("cron", "may name no time for more than %d years: H may draw one that %s leaves out on some of its days", MaxAhead, sch.Timezone)
	return faults
}

// hashedPlaces returns the fields of an expression, and whether anything in it is drawn. One that
// cannot be split has nothing drawn.
func hashedPlaces(cron string) (places [fieldCount]string, hashes bool) {
	if cron == "" {
		return places, false
	}
	places, message := split(cron)
	if message != "" {
		return places, false
	}
	for _, place := range places {
		hashes = hashes || hasHash(place)
	}
	return places, hashes
}

// hasHash reports whether an element of a field is drawn.
func hasHash(field string) bool { return strings.Contains(","+field, ",H") }

// drawsOf returns a draw for everything that may be drawn in the given fields. What has a fault of
// its own is not looked into.
func drawsOf(places [fieldCount]string, given []int) (all []draw, faults Faults) {
	all = []draw{{}}
	for _, i := range given {
		switch {
		case !hasHash(places[i]):
			continue
		case strings.Count(","+places[i], ",H") > 1:
			faults.add("cron", "has a wrong %s: H may stand there once", fields[i].name)
			return nil, faults
		}
		var wider []draw
		for _, d := range all {
			for _, d[i] = range fields[i].draws(places[i]) {
				wider = append(wider, d)
			}
		}
		if all = wider; len(all) > maxDraws {
			faults.add("cron", "draws too much: state the day, the month or the weekday")
			return nil, faults
		}
	}
	return all, nil
}

// drawnDays returns the fields whose draws decide whether there is such a day at all: the month;
// and day and weekday where both must match, since one of them is a wildcard with a step. Else any
// draw will do: days of month are drawn from those that every month has, and every weekday is in
// every week.
func drawnDays(places [fieldCount]string) []int {
	day, week := places[fieldDay], places[fieldWeekday]
	open := func(field string) bool { return field == "*" || field == "?" }
	if both := day + week; open(day) || open(week) || !strings.ContainsAny(both, "/*") {
		return []int{fieldMonth}
	}
	return []int{fieldMonth, fieldDay, fieldWeekday}
}

// draws returns what to draw a field with one H from, so that it becomes everything that it may,
// each once.
func (f *field) draws(text string) (from []uint64) {
	var all []string
	for seed := range uint64(f.max + 1) { // #nosec G115 -- positive
		drawn, _, err := f.read(text, seed)
		if err == nil && slices.Contains(all, drawn) {
			continue
		}
		all, from = append(all, drawn), append(from, seed)
		if err != nil { // as any other draw will find
			break
		}
	}
	return from
}
