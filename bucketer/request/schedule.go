package request

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// lastInstant is the last one that answers can write.
var lastInstant = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

var (
	gaps         = []string{"run", "skip"}
	overlapHours = []string{"first", "second", "both"}
)

// scheduleReader gathers what a request says about when a job is due.
type scheduleReader struct {
	d         *Decoder
	now       time.Time
	otherwise time.Time       // the anchor of an interval that states none
	at        time.Time       // of a one-off job; zero = now
	schedule  schema.Schedule // of a recurring one

	node       int32 // of the schedule, or of the list of them
	list       int32 // of the list
	several    []*scheduleReader
	start, end int32 // beside it
	once       bool  // at is stated
	cron       int32 // nodes of what makes a job recurring
	every      int32
	ofCron     []int32 // nodes of what goes with cron
	anchor     int32
	exclude    int32
	calendar   int32
	faulty     bool // a field of the schedule has a fault of its own
}

// recurring reports whether the job can have many runs.
func (r *scheduleReader) recurring() bool { return r.cron > 0 || r.every > 0 || r.list > 0 }

// readList takes a list of schedules, node i.
func (r *scheduleReader) readList(i int32) {
	d := r.d
	before := len(d.faults)
	if r.node > 0 {
		d.faultAt("body", "must have only one of schedule and schedules")
	}
	r.node, r.list, r.schedule.Listed = i, i, true
	switch {
	case !d.is(i, kindArray):
		d.fault(i, "must be a list of schedules")
	case d.doc.nodes[i].end == i+1:
		d.faultQuietly(i, "must hold at least one schedule")
	}
	if d.is(i, kindArray) {
		for c := range d.allMembers(i) {
			if len(r.several) == schedule.MaxAny {
				d.faultQuietly(i, "must be at most %d schedules", schedule.MaxAny)
				break
			}
			one := &scheduleReader{d: d, now: r.now, otherwise: r.otherwise}
			one.read(c)
			switch {
			case one.once:
				d.faultAt(d.doc.location(c), "must have cron or every: a list is of recurring schedules")
			case !one.recurring() && !one.faulty:
				d.faultAt(d.doc.location(c), "must have cron or every")
			}
			r.several, r.schedule.Any = append(r.several, one), append(r.schedule.Any, one.schedule)
		}
	}
	r.faulty = r.faulty || len(d.faults) > before
}

// readDates reads the dates that node i holds, at most limit of them.
func readDates(d *fields, i int32, limit int) []string {
	if !d.is(i, kindArray) {
		d.fault(i, `must be a list of dates such as "2026-12-25"`)
		return nil
	}
	var dates []string
	for c := range d.allMembers(i) {
		if len(dates) == limit {
			d.faultQuietly(i, "must be at most %d dates", limit)
			break
		}
		dates = append(dates, d.checked(c, dateFault))
	}
	return dates
}

var onDates = []string{schema.OnDateSkip, schema.OnDateNext, schema.OnDatePrevious}

// observes reads what a schedule does on the dates of a calendar. Which they are is found out
// later.
func (r *scheduleReader) observes(i int32) *schema.ScheduleCalendar {
	d, out, stated := r.d, new(schema.ScheduleCalendar), false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "name":
			stated, out.Name = true, d.named(c)
		case "on":
			out.On = d.oneOf(c, onDates)
		default:
			d.faultQuietly(c, "is not a field of calendar")
		}
	}
	d.require(i, stated, "name")
	return out
}

// dateFault says what is wrong with a date, or "".
func dateFault(text string) string {
	if _, ok := schedule.DayOf(text); !ok {
		return `must be a date such as "2026-12-25", of the years 1970 to 2399`
	}
	return ""
}

// read takes the schedule, node i.
func (r *scheduleReader) read(i int32) {
	d := r.d
	before := len(d.faults)
	if r.list > 0 {
		d.faultAt("body", "must have only one of schedule and schedules")
	}
	r.node = i
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "at":
			r.once, r.at = true, d.instant(c, r.now.AddDate(MaxHorizon, 0, 0))
		case "cron":
			r.cron, r.schedule.Cron = c, r.word(c, `an expression of five or six fields, such as "0 9 * * MON-FRI"`)
		case "timezone":
			r.ofCron = append(r.ofCron, c)
			r.schedule.Timezone = r.word(c, `a name such as "Europe/Berlin"`)
		case "gap":
			r.ofCron = append(r.ofCron, c)
			r.schedule.Gap = d.oneOf(c, gaps)
		case "overlap_hour":
			r.ofCron = append(r.ofCron, c)
			r.schedule.OverlapHour = d.oneOf(c, overlapHours)
		case "every":
			r.every, r.schedule.Every = c, d.duration(c, schedule.MinEvery, schedule.MaxEvery)
		case "anchor":
			r.anchor, r.schedule.Anchor = c, d.instant(c, lastInstant)
		case "exclude":
			r.exclude, r.schedule.Exclude = c, readDates(&d.fields, c, schedule.MaxDates)
		case "calendar":
			r.calendar, r.schedule.Calendar = c, r.observes(c)
		default:
			d.faultQuietly(c, "is not a field of a schedule")
		}
	}
	if kinds := countTrue(r.once, r.cron > 0, r.every > 0); kinds > 1 {
		d.faultAt(d.doc.location(i), "must have only one of at, cron and every")
	}
	if r.cron == 0 {
		for _, c := range r.ofCron {
			if zone := string(d.doc.name(c)) == "timezone"; !zone || r.every == 0 || len(r.schedule.Exclude) == 0 && r.calendar == 0 {
				d.faultQuietly(c, "goes with cron alone")
			}
		}
	}
	if r.once && r.exclude > 0 {
		d.faultQuietly(r.exclude, "goes with cron or every")
	}
	if r.once && r.calendar > 0 {
		d.faultQuietly(r.calendar, "goes with cron or every")
	}
	if r.every == 0 && r.anchor > 0 {
		d.faultQuietly(r.anchor, "goes with every alone")
	}
	r.faulty = r.faulty || len(d.faults) > before
}

func countTrue(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// word returns the string that node i is, which must not be empty.
func (r *scheduleReader) word(i int32, what string) string {
	s := r.d.string(i)
	if s == "" && r.d.is(i, kindString) {
		r.d.fault(i, "must be %s", what)
	}
	return s
}

// finish checks what concerns a recurring schedule as a whole, and that it has a time to come.
func (r *scheduleReader) finish() {
	if !r.faulty {
		r.note(schedule.Check(r.rule(), r.now))
	}
}

// stated returns what was read, as it is stored.
func (r *scheduleReader) stated() schema.Schedule {
	s := r.schedule
	if len(s.Exclude) == 0 && s.Calendar == nil {
		return s
	}
	out := schema.Schedule{Start: s.Start, End: s.End, Jitter: s.Jitter}
	s.Start, s.End, s.Jitter = time.Time{}, time.Time{}, 0
	out.Any = []schema.Schedule{s}
	return out
}

// rule returns what was read, complete.
func (r *scheduleReader) rule() schema.Schedule { return r.stated().Anchored(r.otherwise) }

// compile checks what finish does, but not that the schedule has a time to come.
func (r *scheduleReader) compile() {
	if !r.faulty {
		_, err := schedule.Compile(r.rule(), 0)
		r.note(err)
	}
}

// note notes what was found wrong with the schedule as a whole.
func (r *scheduleReader) note(err error) {
	for _, f := range ScheduleFaults(err) {
		r.fault(f)
	}
}

// jitter returns the window that node i is.
func (r *scheduleReader) jitter(i int32) schema.Duration {
	return r.d.duration(i, 0, schedule.MaxJitter)
}

// fault notes what is wrong with the schedule, at the node that says it.
func (r *scheduleReader) fault(f bucketer.Fault) {
	var node int32
	switch f.Location {
	case "body.start":
		node = r.start
	case "body.end":
		node = r.end
	case "body.schedules":
		node = r.list
	default:
		for _, one := range append(r.several, r) {
			for _, c := range append([]int32{one.cron, one.every, one.anchor, one.exclude, one.calendar}, one.ofCron...) {
				if c > 0 && r.d.doc.location(c) == f.Location {
					node = c
				}
			}
		}
	}
	if node == 0 {
		r.d.faultAt(f.Location, "%s", f.Message)
		return
	}
	r.d.fault(node, "%s", f.Message)
}

// ScheduleFaults returns what schedule.Compile found wrong, located as in the body of a request;
// nothing, if err is another.
func ScheduleFaults(err error) bucketer.Faults {
	var found schedule.Faults
	if !errors.As(err, &found) {
		return nil
	}
	faults := make(bucketer.Faults, len(found))
	for i, f := range found {
		faults[i] = bucketer.Fault{Location: "body.schedule." + f.Location, Message: f.Message}
		switch rest, several := strings.CutPrefix(f.Location, "any"); {
		case several:
			faults[i].Location = "body.schedules" + rest
		case f.Location == "start", f.Location == "end", f.Location == "jitter": // these stand beside the schedule
			faults[i].Location = "body." + f.Location
		case f.Location == "":
			faults[i].Location = "body.schedule"
		}
	}
	return faults
}

// instant returns the time that node i is, to the ms, rounded up so that nothing is early, and not
// after latest.
func (d *fields) instant(i int32, latest time.Time) time.Time {
	if !d.is(i, kindString) {
		d.fault(i, `must be a string such as "2026-11-21T09:30:00Z"`)
		return time.Time{}
	}
	t, ok := d.time(i)
	if year := t.UTC().Year(); !ok || year < 0 || year > 9999 {
		d.fault(i, noTime)
		return time.Time{}
	}
	if t.After(latest) {
		if latest.Equal(lastInstant) {
			d.fault(i, "must lie in the years 0 to 9999 of UTC")
		} else {
			d.fault(i, "must not be more than %d years from now", MaxHorizon)
		}
		return time.Time{}
	}
	if ms := t.Truncate(time.Millisecond); !ms.Equal(t) {
		t = ms.Add(time.Millisecond)
	}
	if t.IsZero() { // the one instant that would mean now means now
		return time.Time{}
	}
	return t.UTC()
}

// noTime is the fault of what is no time.
const noTime = `must be an RFC 3339 time with an offset, such as "2026-11-21T09:30:00Z"`

// time returns the time that node i is, and whether it is one.
func (d *fields) time(i int32) (t time.Time, ok bool) {
	text := d.doc.stringOf(i)
	ok = d.is(i, kindString) && t.UnmarshalText(text) == nil && isStrictTime(text)
	return t, ok
}

// isStrictTime reports whether a text that package time takes for RFC 3339 is: it also takes hours
// of one digit, commas for points, and offsets of a day and more.
func isStrictTime(text []byte) bool {
	if text[len("2006-01-02T15")] != ':' || bytes.IndexByte(text, ',') >= 0 {
		return false
	}
	if text[len(text)-1] == 'Z' {
		return true
	}
	offset := text[len(text)-len("07:00"):]
	return string(offset[:2]) < "24" && string(offset[3:]) < "60"
}
