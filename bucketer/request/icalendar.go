package request

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// The forms of a date in an iCalendar.
const icsDate = "20060102"

const (
	// maxEventFaults bounds what is said of the events of an iCalendar.
	maxEventFaults = 10
	// maxComponents bounds how deep its components lie within each other: an alarm of an event is
	// the third.
	maxComponents = 5
)

// Bounds of events that repeat. A calendar is dates, so a rule is written out once: when the
// calendar is put.
const (
	yearsBack   = 1    // years before this one of which a rule's dates are kept
	yearsAhead  = 5    // years after this one
	maxRule     = 200  // bytes of an RRULE, and thereby the length of its lists
	maxRuleWork = 5000 // years that are looked at for all RRULEs of an iCalendar together
)

const beyondYears = "has dates beyond the years 1970 to 2399"

// ruleParts are the parts of an RRULE that are understood.
var ruleParts = []string{"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY", "BYSETPOS"}

// readICalendar returns the dates of the all-day events of an iCalendar (RFC 5545), and what is
// wrong with it. An event of several days is each of them; one that is cancelled is none. Of an
// event that repeats each year the dates from last year to five years from now are kept. Of what
// repeats otherwise nothing is understood but lists of dates.
func readICalendar(text []byte, now time.Time) (dates []string, faults []string) {
	if isTooDeep(text) {
		return nil, []string{fmt.Sprintf("has components within components, more than %d deep", maxComponents)}
	}
	cal, err := ics.ParseCalendar(bytes.NewReader(text))
	if err != nil {
		return nil, []string{"is no iCalendar: " + string(bucketer.Shorten([]byte(err.Error()), 200))}
	}
	events := cal.Events()
	if len(events) == 0 {
		return nil, []string{"has no events"}
	}
	r := eventReader{first: now.UTC().Year() - yearsBack, last: now.UTC().Year() + yearsAhead, work: maxRuleWork, moved: movedDays(events)}
	for n, e := range events {
		days, what := r.datesOf(e)
		if what != "" {
			if len(faults) == maxEventFaults {
				return nil, append(faults, "has more events that are wrong")
			}
			name := fmt.Sprintf("event %d", n+1)
			if p := e.GetProperty(ics.ComponentPropertySummary); p != nil {
				name += fmt.Sprintf(" (%q)", string(bucketer.Shorten([]byte(p.Value), 60)))
			}
			faults = append(faults, name+" "+what)
			continue
		}
		if dates = append(dates, days...); len(dates) > schema.MaxCalendarDates {
			return nil, append(faults, fmt.Sprintf("has more than %d dates", schema.MaxCalendarDates))
		}
	}
	return dates, faults
}

// isTooDeep reports whether components lie within components deeper than maxComponents. The library
// wraps a fault once for each level and keeps the text of each: of 16,000 levels, in 224 KB, that
// took 6 GB.
func isTooDeep(text []byte) bool {
	depth := 0
	for lines := ics.NewCalendarStream(bytes.NewReader(text)); ; {
		line, end := lines.ReadLine()
		if line != nil && len(*line) > 0 {
			p, err := ics.ParseProperty(*line)
			if err != nil || p == nil {
				return false // the library stops here too
			}
			switch p.IANAToken {
			case "BEGIN":
				if depth++; depth > maxComponents {
					return true
				}
			case "END":
				depth--
			}
		}
		if end != nil {
			return false
		}
	}
}

// occurrence is one day of a series of events, by the UID of the series.
type occurrence struct{ uid, day string }

// movedDays returns the days of series in whose place another event stands.
func movedDays(events []*ics.VEvent) map[occurrence]bool {
	moved := map[occurrence]bool{}
	for _, e := range events {
		if p := e.GetProperty(ics.ComponentPropertyRecurrenceId); p != nil {
			moved[occurrence{e.Id(), p.Value}] = true
		}
	}
	return moved
}

// eventReader reads the events of one iCalendar.
type eventReader struct {
	first, last int // the years of which the dates of rules are kept
	work        int // years that may still be looked at for rules
	moved       map[occurrence]bool
}

// datesOf returns the dates of an event, or what is wrong with it.
func (r *eventReader) datesOf(e *ics.VEvent) (dates []string, what string) {
	if p := e.GetProperty(ics.ComponentPropertyStatus); p != nil && p.Value == string(ics.ObjectStatusCancelled) {
		return nil, ""
	}
	start, days, what := span(e)
	if what != "" {
		return nil, what
	}
	starts, what := r.starts(e, start)
	if what != "" {
		return nil, what
	}
	for _, day := range starts {
		for range days {
			text := day.Format(time.DateOnly)
			if _, ok := schedule.DayOf(text); !ok {
				return nil, beyondYears
			}
			if dates = append(dates, text); len(dates) > schema.MaxCalendarDates {
				return nil, fmt.Sprintf("has more than %d dates", schema.MaxCalendarDates)
			}
			day = day.AddDate(0, 0, 1)
		}
	}
	return dates, ""
}

// span returns the first day of an event and how many it lasts, or what is wrong with it.
func span(e *ics.VEvent) (start time.Time, days int, what string) {
	start, what = dayOfProperty(e, ics.ComponentPropertyDtStart)
	if what != "" {
		return start, 0, what
	}
	if e.GetProperty(ics.ComponentPropertyDtStart) == nil {
		return start, 0, "has no DTSTART"
	}
	if _, ok := schedule.DayOf(start.Format(time.DateOnly)); !ok {
		return start, 0, beyondYears
	}
	end, what := dayOfProperty(e, ics.ComponentPropertyDtEnd)
	switch {
	case what != "":
		return start, 0, what
	case end.IsZero() && e.GetProperty("DURATION") != nil:
		return start, 0, "has a DURATION: it must have a DTEND"
	case end.IsZero():
		end = start.AddDate(0, 0, 1)
	case !end.After(start):
		return start, 0, "ends before it starts: DTEND is the day after its last one"
	}
	if days = int(end.Sub(start) / (24 * time.Hour)); days > schema.MaxCalendarDates {
		return start, 0, fmt.Sprintf("lasts longer than %d days", schema.MaxCalendarDates)
	}
	return start, days, ""
}

// starts returns the first days of all occurrences of an event that starts on a day.
func (r *eventReader) starts(e *ics.VEvent, start time.Time) (all []time.Time, what string) {
	if e.GetProperty("EXRULE") != nil {
		return nil, "repeats with an EXRULE: each date must be an event of its own"
	}
	if p := e.GetProperty(ics.ComponentPropertyRecurrenceId); p != nil {
		if p.ICalParameters["RANGE"] != nil {
			return nil, "changes all later ones of its series (RECURRENCE-ID with RANGE): each date must be an event of its own"
		}
		return []time.Time{start}, ""
	}
	switch rules := e.GetProperties(ics.ComponentPropertyRrule); len(rules) {
	case 0:
		all = []time.Time{start}
	case 1:
		if all, what = r.byRule(rules[0].Value, start); what != "" {
			return nil, what
		}
	default:
		return nil, "repeats by more than one RRULE: each date must be an event of its own"
	}
	more, what := daysOfProperties(e, ics.ComponentPropertyRdate)
	if what != "" {
		return nil, what
	}
	without, what := daysOfProperties(e, ics.ComponentPropertyExdate)
	if what != "" {
		return nil, what
	}
	left := map[time.Time]bool{}
	for _, day := range without {
		left[day] = true
	}
	all = slices.DeleteFunc(append(all, more...), func(day time.Time) bool {
		return left[day] || r.moved[occurrence{e.Id(), day.Format(icsDate)}]
	})
	return all, ""
}

// byRule returns the days that an RRULE names of the years that are kept, of an event that starts
// on a day. Each year is asked for by itself: so the work is bounded by the number of years,
// whatever the rule says.
func (r *eventReader) byRule(text string, start time.Time) (all []time.Time, what string) {
	rule, what := readRule(text, start)
	if what != "" {
		return nil, what
	}
	n := 0 // occurrences so far
	for year := start.Year(); year <= r.last || year == start.Year(); year += rule.Interval {
		if r.work--; r.work < 0 {
			return nil, "is one of too many that repeat: the later ones must be written out"
		}
		days, err := daysOfYear(rule, year)
		if err != nil {
			return nil, "has an RRULE that is wrong: " + err.Error()
		}
		if year == start.Year() && !slices.ContainsFunc(days, start.Equal) {
			return nil, "starts on a day that its RRULE does not name"
		}
		for _, day := range days {
			if day.Before(start) {
				continue
			}
			n++
			if rule.Count > 0 && n > rule.Count || !rule.Until.IsZero() && day.After(rule.Until) {
				return all, ""
			}
			if year < r.first || year > r.last {
				continue
			}
			if all = append(all, day); len(all) > schema.MaxCalendarDates {
				return nil, fmt.Sprintf("has more than %d dates", schema.MaxCalendarDates)
			}
		}
		if rule.Count == 0 && year < r.first { // how many came before decides nothing
			year += (r.first - year - 1) / rule.Interval * rule.Interval
		}
	}
	return all, ""
}

// readRule reads an RRULE of an event that starts on a day, or says what is wrong with it. The
// interval is at least 1; what the rule leaves to DTSTART is filled in.
func readRule(text string, start time.Time) (rule rrule.ROption, what string) {
	if len(text) > maxRule {
		return rule, fmt.Sprintf("has an RRULE of more than %d bytes", maxRule)
	}
	text = strings.ToUpper(strings.TrimSuffix(text, ";"))
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case name == "FREQ" && value != "YEARLY":
			return rule, "repeats (" + part + "): only FREQ=YEARLY is written out; otherwise each date must be an event of its own"
		case !slices.Contains(ruleParts, name) || seen[name]:
			return rule, fmt.Sprintf("has an RRULE with %q: it may have %s, each once", part, strings.Join(ruleParts, ", "))
		}
		seen[name] = true
	}
	read, err := rrule.StrToROption(text)
	if err != nil {
		return rule, "has an RRULE that is wrong: " + err.Error()
	}
	rule = *read
	if seen["INTERVAL"] && rule.Interval < 1 || seen["COUNT"] && rule.Count < 1 {
		return rule, "has an RRULE that is wrong: INTERVAL and COUNT must be at least 1"
	}
	rule.Interval = min(max(rule.Interval, 1), neverAgain)
	for _, d := range rule.Byweekday {
		if n := max(d.N(), -d.N()); len(rule.Bymonth) > 0 && n > 5 || n > 53 {
			return rule, "has an RRULE that is wrong: BYDAY names a week that no month, or no year, has"
		}
	}
	if len(rule.Bymonthday)+len(rule.Byyearday)+len(rule.Byweekday) == 0 {
		if rule.Bymonthday = []int{start.Day()}; len(rule.Bymonth) == 0 {
			rule.Bymonth = []int{int(start.Month())}
		}
	}
	return rule, ""
}

// neverAgain is an interval beyond the last year that a rule can have.
const neverAgain = 10_000

// daysOfYear returns the days that a rule names of a year, in order. It looks at no other year,
// also where this one has none.
func daysOfYear(rule rrule.ROption, year int) ([]time.Time, error) {
	rule.Dtstart = time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
	rule.Interval, rule.Count, rule.Until = neverAgain, 0, time.Time{}
	all, err := rrule.NewRRule(rule)
	if err != nil {
		return nil, err
	}
	return all.All(), nil
}

// daysOfProperties returns the days that all properties of a name list.
func daysOfProperties(e *ics.VEvent, name ics.ComponentProperty) (days []time.Time, what string) {
	for _, p := range e.GetProperties(name) {
		for value := range strings.SplitSeq(p.Value, ",") {
			day, err := time.Parse(icsDate, value)
			if err != nil {
				return nil, "has an " + string(name) + " that is no date such as 20261225"
			}
			if days = append(days, day); len(days) > schema.MaxCalendarDates {
				return nil, fmt.Sprintf("has more than %d dates in %s", schema.MaxCalendarDates, name)
			}
		}
	}
	return days, ""
}

// dayOfProperty returns the day that a property is; the zero time: it is not there.
func dayOfProperty(e *ics.VEvent, name ics.ComponentProperty) (day time.Time, what string) {
	p := e.GetProperty(name)
	if p == nil {
		return time.Time{}, ""
	}
	day, err := time.Parse(icsDate, p.Value)
	if err != nil {
		return time.Time{}, "is no all-day event: " + string(name) + " must be a date such as 20261225"
	}
	return day, ""
}
