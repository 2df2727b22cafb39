package notifications

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// MuteFault says what is wrong with a mute time interval, and with which field of it; "" = nothing.
func MuteFault(m *schema.MuteTimeInterval) (field, fault string) {
	_, field, err := parseMute(m)
	if err != nil {
		return field, err.Error()
	}
	return "", ""
}

// span is from low to high, both included.
type span struct{ low, high int }

// muteInterval is a schema.MuteTimeInterval that was read.
type muteInterval struct {
	times                         []span // minutes of the day, the last one excluded
	weekdays, days, months, years []span
	location                      *time.Location
}

// isMute reports whether a rule sends nothing at now. An interval that cannot be read is none.
func isMute(r *schema.NotificationRule, now time.Time) bool {
	return slices.ContainsFunc(r.Mute, func(m schema.MuteTimeInterval) bool {
		parsed, _, err := parseMute(&m)
		return err == nil && parsed.has(now)
	})
}

func (m *muteInterval) has(now time.Time) bool {
	now = now.In(m.location)
	year, month, day := now.Date()
	last := time.Date(year, month+1, 0, 12, 0, 0, 0, time.UTC).Day()
	minute := now.Hour()*60 + now.Minute()
	in := func(spans []span, v int) bool {
		return len(spans) == 0 || slices.ContainsFunc(spans, func(s span) bool { return s.low <= v && v <= s.high })
	}
	inDays := len(m.days) == 0 || slices.ContainsFunc(m.days, func(s span) bool {
		low, high := s.low, s.high
		if low < 0 {
			low += last + 1
		}
		if high < 0 {
			high += last + 1
		}
		return low <= day && day <= high
	})
	inTimes := len(m.times) == 0 || slices.ContainsFunc(m.times, func(s span) bool { return s.low <= minute && minute < s.high })
	return inTimes && inDays && in(m.weekdays, int(now.Weekday())) && in(m.months, int(month)) && in(m.years, year)
}

var (
	weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	months   = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
)

// parseMute reads an interval. With an error it names the field.
func parseMute(m *schema.MuteTimeInterval) (out muteInterval, field string, err error) {
	for _, t := range m.Times {
		low, err := minuteOf(t.StartTime)
		if err != nil {
			return out, "times", err
		}
		high, err := minuteOf(t.EndTime)
		if err != nil {
			return out, "times", err
		}
		if low >= high {
			return out, "times", errors.New("must have a start_time before its end_time: a night is two of them, such as 22:00 to 24:00 and 00:00 to 06:00")
		}
		out.times = append(out.times, span{low, high})
	}
	weekday := func(s string) (int, error) { return named(s, weekdays, 0, "a day of the week, such as monday") }
	month := func(s string) (int, error) {
		if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= 12 {
			return n, nil
		}
		return named(s, months, 1, "a month, such as january or 1")
	}
	day := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n == 0 || n < -31 || n > 31 {
			return 0, errors.New("must be days from 1 to 31, or from -31 to -1 counted from the end of the month")
		}
		return n, nil
	}
	year := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1970 || n > 9999 {
			return 0, errors.New("must be years such as 2026")
		}
		return n, nil
	}
	for _, f := range []struct {
		name  string
		texts []string
		read  func(string) (int, error)
		into  *[]span
	}{
		{"weekdays", m.Weekdays, weekday, &out.weekdays},
		{"days_of_month", m.DaysOfMonth, day, &out.days},
		{"months", m.Months, month, &out.months},
		{"years", m.Years, year, &out.years},
	} {
		for _, text := range f.texts {
			s, err := spanOf(text, f.read)
			if err != nil {
				return out, f.name, err
			}
			*f.into = append(*f.into, s)
		}
	}
	out.location = time.UTC
	if m.Location != "" {
		if out.location, err = time.LoadLocation(m.Location); err != nil || m.Location == "Local" {
			return out, "location", errors.New("is not a time zone that this node knows, such as Europe/Berlin")
		}
	}
	return out, "", nil
}

// spanOf reads "low:high", or one value.
func spanOf(text string, read func(string) (int, error)) (s span, err error) {
	low, high, isRange := strings.Cut(text, ":")
	if s.low, err = read(low); err != nil {
		return s, err
	}
	s.high = s.low
	if isRange {
		if s.high, err = read(high); err != nil {
			return s, err
		}
	}
	if s.low > s.high && (s.low < 0) == (s.high < 0) || s.low < 0 && s.high > 0 {
		return s, errors.New("must be a range from the lower to the higher")
	}
	return s, nil
}

func named(s string, names []string, first int, what string) (int, error) {
	if i := slices.Index(names, strings.ToLower(s)); i >= 0 {
		return i + first, nil
	}
	return 0, fmt.Errorf("must be %s", what)
}

// minuteOf reads a time of day, 00:00 to 24:00.
func minuteOf(text string) (int, error) {
	hours, minutes, ok := strings.Cut(text, ":")
	h, err1 := strconv.Atoi(hours)
	m, err2 := strconv.Atoi(minutes)
	if !ok || len(hours) != 2 || len(minutes) != 2 || err1 != nil || err2 != nil || h < 0 || m < 0 || m > 59 || h*60+m > 24*60 {
		return 0, errors.New("must have times from 00:00 to 24:00")
	}
	return h*60 + m, nil
}
