package cli

import (
	"strconv"
	"strings"
	"time"
)

// Times says in the help of a command what a flag that states a time takes.
const Times = "a time (RFC 3339), a span from now such as -24h or -7d, or a day and perhaps a time of day: today, yesterday, tomorrow, a weekday (the next one), " +
	"2026-11-21 or \"2026-11-21 18:30\"; a day alone is its midnight, and days are of this machine's time zone"

// days are the words for a day, and how many days it lies after today.
var days = map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}

// Instant reads the time that a flag states: RFC 3339, a span from now such as -10m, or a day,
// which a time of day may follow: "tomorrow 10:00". A day is a date or a word, in the time zone of
// now. A weekday is the next one that lies after now. A day alone stands for its beginning. A span
// of whole days, such as -7d, is this time of that day. A time of day that a day has twice, or not
// at all, is refused.
func Instant(flag, text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if after, err := strconv.ParseInt(n, 10, 16); err == nil {
			return now.AddDate(0, 0, int(after)), nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	day, clock, timed := strings.Cut(text, " ")
	first, every, ok := dayOf(day, now)
	var at time.Time
	if ok && timed {
		at, ok = timeOfDay(clock)
	}
	if !ok {
		return time.Time{}, Usagef("--%s: %q is neither a time such as 2026-11-21T10:00:00+01:00, a day such as 2026-11-21, today, yesterday, tomorrow or friday, alone or with a time of day (\"tomorrow 10:00\"), "+
			"nor a span from now such as -10m or -7d", flag, text)
	}
	about := time.Date(first.Year(), first.Month(), first.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
	if every && !about.After(now) {
		first = first.AddDate(0, 0, 7)
	}
	return onDay(flag, text, first, at, timed, now.Location())
}

// dayOf reads a date, or a word for a day, as UTC has it. every: it is a weekday, and the day is
// the next one from today on.
func dayOf(text string, now time.Time) (day time.Time, every, ok bool) {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	word := strings.ToLower(text)
	if after, ok := days[word]; ok {
		return today.AddDate(0, 0, after), false, true
	}
	for n := range 7 {
		next := today.AddDate(0, 0, n)
		if name := strings.ToLower(next.Weekday().String()); word == name || word == name[:3] {
			return next, true, true
		}
	}
	day, err := time.Parse(time.DateOnly, text)
	return day, false, err == nil
}

// timeOfDay reads a time of day such as 10:00 or 10:00:30.
func timeOfDay(text string) (time.Time, bool) {
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// onDay returns the instant at which clocks of a zone show a time of day of a day, or the beginning
// of that day.
func onDay(flag, text string, day, at time.Time, timed bool, zone *time.Location) (time.Time, error) {
	shown := time.Date(day.Year(), day.Month(), day.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
	found, later := showing(shown, zone)
	where := zone.String()
	if zone == time.Local {
		where = "this machine"
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case !timed && len(found) == 0: // clocks leave midnight out: the day begins when they are put forward
		begin, _ := later.ZoneBounds()
		return begin, nil
	case !timed:
		return found[0], nil
	case len(found) == 0:
		return time.Time{}, Usagef("--%s: clocks of %s leave %q out: write %s, or another time", flag, where, text, later.Format(time.RFC3339))
	default:
		return time.Time{}, Usagef("--%s: clocks of %s show %q twice: write %s or %s", flag, where, text, found[0].Format(time.RFC3339), found[1].Format(time.RFC3339))
	}
}

// showing returns the instants at which clocks of a zone show what UTC shows at a time, in order:
// one, or none or two where clocks change. later is what they would have shown it at without the
// change.
func showing(shown time.Time, zone *time.Location) (found []time.Time, later time.Time) {
	_, before := shown.Add(-24 * time.Hour).In(zone).Zone()
	_, after := shown.Add(24 * time.Hour).In(zone).Zone()
	offsets := []int{before}
	if after != before {
		offsets = append(offsets, after)
	}
	for _, offset := range offsets {
		t := shown.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, is := t.Zone(); is == offset {
			found = append(found, t)
		}
	}
	return found, shown.Add(-time.Duration(before) * time.Second).In(zone)
}

// TimeFlag is the text of a flag that states a time, and where that time goes.
type TimeFlag struct {
	Name, Text string
	Into       *time.Time
}

// NewTimeFlag makes a TimeFlag.
func NewTimeFlag(name, text string, into *time.Time) TimeFlag { return TimeFlag{name, text, into} }

// Instants reads the flags that are not empty.
func Instants(now time.Time, flags ...TimeFlag) (err error) {
	for _, f := range flags {
		if f.Text == "" {
			continue
		}
		if *f.Into, err = Instant(f.Name, f.Text, now); err != nil {
			return err
		}
	}
	return nil
}

// Window reads --from and --to; both are needed.
func Window(from, to string, now time.Time) (begin, end time.Time, err error) {
	if begin, err = Instant("from", from, now); err != nil {
		return begin, end, err
	}
	if end, err = Instant("to", to, now); err != nil {
		return begin, end, err
	}
	if !begin.Before(end) {
		return begin, end, Usagef("--from must be before --to")
	}
	return begin, end, nil
}
