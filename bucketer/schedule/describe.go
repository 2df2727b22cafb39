package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Describe returns the schedule in words, such as "at 09:00 on Monday to Friday, Europe/Berlin
// time".
func (s *Schedule) Describe() string {
	if s.rhythm == nil {
		return "never"
	}
	text := s.rhythm.describe()
	if !s.start.IsZero() {
		text += ", from " + stamp(s.start)
	}
	if !s.stop.IsZero() {
		text += ", before " + stamp(s.stop)
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z07:00") }

// describe says "every 90 minutes, counted from 2026-11-21T09:30:00Z".
func (v interval) describe() string {
	text := ""
	for _, unit := range []struct {
		name string
		ms   int64
	}{{"day", 24 * 3600 * 1000}, {"hour", 3600 * 1000}, {"minute", 60 * 1000}, {"second", 1000}, {"millisecond", 1}} {
		if v.every%unit.ms == 0 {
			text = everyNth(v.every/unit.ms, unit.name)
			break
		}
	}
	return text + ", counted from " + stamp(time.UnixMilli(v.anchor))
}

// everyNth says "every hour" or "every 3 hours".
func everyNth(n int64, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// dayRule is which days an expression names, as it says it.
type dayRule struct {
	month, week     uint64 // days 1 to 31, weekdays 0 to 6
	ofMonth         []cron.DomConstraint
	ofWeek          []cron.DowConstraint
	either          bool // one of month and week is enough
	anyDay, anyWeek bool // month and week name every day
}

// maxListed is how many times of day are listed one by one.
const maxListed = 6

// describe says "at 09:00 on Monday to Friday, Europe/Berlin time".
func (c *timetable) describe() string {
	days := c.rule.words()
	var text string
	if c.perDay <= maxListed {
		var times []string
		for n := range c.perDay {
			times = append(times, clockTime(c.secondAt(n)))
		}
		text = "at " + joined(times, ", ")
		if days == "" {
			days = "every day"
		}
	} else {
		text = c.frequency()
	}
	if days != "" {
		text += " " + days
	}
	if c.months != allMonths {
		text += " in " + listed(c.months, func(n int) string { return time.Month(n).String() })
	}
	text += butNot(c.without) + c.observed.words()
	if c.zone.name == "UTC" {
		return text + ", UTC"
	}
	return text + ", " + c.zone.name + " time"
}

const (
	allSixty  = 1<<60 - 1
	allHours  = 1<<24 - 1
	allMonths = 1<<13 - 2
	allDays   = 1<<32 - 2
	allWeek   = 1<<7 - 1
)

// frequency says how often in a day an expression fires that fires often.
func (p *pattern) frequency() string {
	var words []string
	onlyZero := p.seconds == 1
	if onlyZero && p.minutes == 1 {
		if n, ok := evenly(p.hours, 24); ok {
			return everyNth(n, "hour")
		}
	}
	rising := false // what was said repeats by itself in every minute, or hour
	if !onlyZero {
		if n, ok := evenly(p.seconds, 60); ok {
			words, rising = append(words, everyNth(n, "second")), true
		} else {
			words = append(words, "at second "+listed(p.seconds, strconv.Itoa))
		}
	}
	n, even := evenly(p.minutes, 60)
	switch {
	case len(words) == 0 && even:
		words, rising = append(words, everyNth(n, "minute")), true
	case len(words) == 0:
		words = append(words, "at minute "+listed(p.minutes, strconv.Itoa))
	case p.minutes != allSixty:
		words, rising = append(words, "of minute "+listed(p.minutes, strconv.Itoa)), false
	case !rising:
		words, rising = append(words, "of every minute"), true
	}
	switch {
	case p.hours != allHours:
		words = append(words, "of hour "+listed(p.hours, strconv.Itoa))
	case !rising:
		words = append(words, "of every hour")
	}
	return strings.Join(words, " ")
}

// evenly reports whether a set is 0, n, 2n … and so on round a dial of that size, and returns n.
func evenly(set uint64, size int) (n int64, ok bool) {
	count := bits.OnesCount64(set)
	if count < 2 || size%count != 0 {
		return 0, false
	}
	step := size / count
	for i := 0; i < size; i += step {
		if set>>i&1 == 0 {
			return 0, false
		}
	}
	return int64(step), true
}

// words says on which days, or nothing if on every day.
func (r *dayRule) words() string {
	month, week := r.monthWords(), r.weekWords()
	switch {
	case r.either && (r.anyDay || r.anyWeek) || r.anyDay && r.anyWeek:
		return ""
	case r.either:
		return "on " + month + ", and on " + week
	case r.anyDay:
		return "on " + week
	case r.anyWeek:
		return "on " + month
	default:
		return "on " + month + ", if that is " + week
	}
}

// monthWords says "day 1 and 15 of the month" or "the last day of the month".
func (r *dayRule) monthWords() string {
	var words []string
	if r.month != 0 {
		words = append(words, "day "+listed(r.month, strconv.Itoa)+" of the month")
	}
	for _, c := range r.ofMonth {
		switch c.Type {
		case cron.DomLast:
			words = append(words, "the last day of the month")
		case cron.DomLastOffset:
			words = append(words, fmt.Sprintf("the %s before the last of the month", plural(c.N, "day")))
		case cron.DomLastWeekday:
			words = append(words, "the last working day (Monday to Friday) of the month")
		case cron.DomNearestWeekday:
			words = append(words, fmt.Sprintf("the working day (Monday to Friday) nearest to day %d of the month", c.N))
		}
	}
	return joined(words, ", ")
}

// weekWords says "Monday to Friday" or "the third Friday of the month".
func (r *dayRule) weekWords() string {
	var words []string
	if r.week != 0 {
		// The week begins on Monday here, so that Saturday and Sunday stand together.
		shifted := r.week>>1 | r.week&1<<6
		words = append(words, listed(shifted, func(n int) string { return time.Weekday((n + 1) % daysPerWeek).String() }))
	}
	for _, c := range r.ofWeek {
		which := "last"
		if c.N > 0 {
			which = [...]string{"first", "second", "third", "fourth", "fifth"}[c.N-1]
		}
		words = append(words, "the "+which+" "+time.Weekday(c.Weekday).String()+" of the month")
	}
	return joined(words, ", ")
}

func plural(n int, unit string) string {
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// listed says the members of a set: "1, 2 and 9", "Monday to Friday", "0, 5, 10 … 55".
func listed(set uint64, name func(int) string) string {
	var members []int
	for ; set != 0; set &= set - 1 {
		members = append(members, bits.TrailingZeros64(set))
	}
	var words []string
	for i := 0; i < len(members); {
		step, n := 1, 1 // the progression that begins here
		if i+1 < len(members) {
			step, n = members[i+1]-members[i], 2
		}
		for n > 1 && i+n < len(members) && members[i+n]-members[i+n-1] == step {
			n++
		}
		switch {
		case step == 1 && n >= 3:
			words = append(words, name(members[i])+" to "+name(members[i+n-1]))
		case n >= 5:
			words = append(words, name(members[i])+", "+name(members[i+1])+", "+name(members[i+2])+" … "+name(members[i+n-1]))
		default:
			n = 1
			words = append(words, name(members[i]))
		}
		i += n
	}
	return joined(words, ", ")
}

// joined puts "and" before the last of several.
func joined(words []string, comma string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], comma) + " and " + words[len(words)-1]
}

// clockTime writes a second of the day as 09:00, or as 09:00:30.
func clockTime(second int64) string {
	if second%60 != 0 {
		return fmt.Sprintf("%02d:%02d:%02d", second/3600, second/60%60, second%60)
	}
	return fmt.Sprintf("%02d:%02d", second/3600, second/60%60)
}
