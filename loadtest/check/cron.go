package check

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is an expression as the judge reads it. It looks at every second by itself and shares no
// code with the system. It understands numbers, lists, ranges, steps and wildcards; in zones with
// changing offsets only expressions that follow elapsed time. A history with any other cannot be
// judged.
type cron struct {
	second, minute, hour, day, month, weekday uint64 // a bit for each value
	// day or weekday is enough: neither is a wildcard
	eitherDay bool
	zone      *time.Location
}

// cronFields are the fields with their bounds, in order.
var cronFields = []struct {
	name   string
	lo, hi int
}{{"second", 0, 59}, {"minute", 0, 59}, {"hour", 0, 23}, {"day", 1, 31}, {"month", 1, 12}, {"weekday", 0, 7}}

// parseCron reads an expression of five or six fields in a zone; "" is UTC.
func parseCron(text, zone string) (*cron, error) {
	fields := strings.Fields(text)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != len(cronFields) {
		return nil, fmt.Errorf("cron %q has %d fields", text, len(fields))
	}
	var sets [6]uint64
	for i, f := range cronFields {
		set, err := cronSet(fields[i], f.lo, f.hi)
		if err != nil {
			return nil, fmt.Errorf("cron %q: %s: %w", text, f.name, err)
		}
		sets[i] = set
	}
	c := &cron{sets[0], sets[1], sets[2], sets[3], sets[4], sets[5], false, time.UTC}
	if c.weekday&(1<<7) != 0 { // Sunday has two numbers
		c.weekday |= 1
	}
	c.eitherDay = !cronWild(fields[3]) && !cronWild(fields[5])
	if zone != "" && zone != "UTC" {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			return nil, fmt.Errorf("cron %q: %w", text, err)
		}
		if c.zone = loc; !cronWild(fields[1]) && !cronWild(fields[2]) {
			return nil, fmt.Errorf("cron %q in %s: fixed times of a zone cannot be judged", text, zone)
		}
	}
	return c, nil
}

func cronWild(field string) bool { return strings.HasPrefix(field, "*") || field == "?" }

// cronSet reads one field.
func cronSet(field string, lo, hi int) (set uint64, err error) {
	for part := range strings.SplitSeq(field, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("%q is not understood", part)
			}
		}
		from, to := lo, hi
		if span != "*" && span != "?" {
			first, last, ranged := strings.Cut(span, "-")
			if from, err = strconv.Atoi(first); err != nil {
				return 0, fmt.Errorf("%q is not understood", part)
			}
			switch {
			case ranged:
				if to, err = strconv.Atoi(last); err != nil {
					return 0, fmt.Errorf("%q is not understood", part)
				}
			case !stepped:
				to = from
			}
		}
		if from < lo || to > hi || from > to {
			return 0, fmt.Errorf("%q is outside of %d to %d", part, lo, hi)
		}
		for v := from; v <= to; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

// matches reports whether the expression names the second that begins at t.
func (c *cron) matches(t time.Time) bool {
	w := t.In(c.zone)
	has := func(set uint64, v int) bool { return set&(1<<v) != 0 }
	if !has(c.second, w.Second()) || !has(c.minute, w.Minute()) || !has(c.hour, w.Hour()) || !has(c.month, int(w.Month())) {
		return false
	}
	day, weekday := has(c.day, w.Day()), has(c.weekday, int(w.Weekday()))
	if c.eitherDay {
		return day || weekday
	}
	return day && weekday
}

// each calls visit for every time in [from, to) that the expression names, in ms since the Unix
// epoch.
func (c *cron) each(from, to int64, visit func(ms int64)) {
	for s := (from + 999) / 1000; s*1000 < to; s++ {
		if c.matches(time.Unix(s, 0)) {
			visit(s * 1000)
		}
	}
}
