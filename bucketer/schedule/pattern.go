package schedule

import (
	"math/bits"
	"time"
)

const (
	secondsPerDay = 24 * 60 * 60
	daysPerWeek   = 7
)

// wall is what a clock on the wall shows: seconds since 1970-01-01 00:00:00 of that clock, whatever
// its zone.
type wall int64

// split returns the day since 1970-01-01, and the second of that day.
func (w wall) split() (day, second int64) {
	day = floorDiv(int64(w), secondsPerDay)
	return day, int64(w) - day*secondsPerDay
}

// pattern is the set of wall-clock times that a cron expression names: those of the times of day on
// those of the days. A set of numbers is a word with their bits.
type pattern struct {
	seconds, minutes, hours uint64
	months                  uint64 // 1 to 12
	// days[length-28][weekday] are the days 1 to 31 of a month of that length whose first is that
	// weekday (Sunday is 0): there are only 28 kinds of months.
	days [4][daysPerWeek]uint32

	// amended is what single months have else, by their first day; nil: nothing.
	amended map[int64]amendment

	perMinute, perHour, perDay int64 // how many times match in a minute, hour, day that matches
}

// seal fills in the counts, once the sets are there.
func (p *pattern) seal() {
	p.perMinute = int64(bits.OnesCount64(p.seconds))
	p.perHour = int64(bits.OnesCount64(p.minutes)) * p.perMinute
	p.perDay = int64(bits.OnesCount64(p.hours)) * p.perHour
}

// month is a month of the calendar.
type month struct {
	first   int64 // its first day, since 1970-01-01
	year    int
	number  int // 1 to 12
	weekday int // of its first day
	length  int // days
}

// monthOf returns the month of a day, and the day's number in it, from 1.
func monthOf(day int64) (m month, number int) {
	year, name, number := time.Unix(day*secondsPerDay, 0).UTC().Date()
	m = month{first: day - int64(number) + 1, year: year, number: int(name), length: monthLength(year, int(name))}
	m.weekday = weekdayOf(m.first)
	return m, number
}

// following returns the month after m.
func (m month) following() month {
	m.first += int64(m.length)
	m.weekday = (m.weekday + m.length) % daysPerWeek
	m.number++
	if m.number > 12 {
		m.year, m.number = m.year+1, 1
	}
	m.length = monthLength(m.year, m.number)
	return m
}

// start returns midnight of the first.
func (m month) start() wall { return wall(m.first * secondsPerDay) }

func monthLength(year, number int) int {
	switch number {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	default:
		return 31
	}
}

// weekdayOf returns the weekday of a day since 1970-01-01, a Thursday.
func weekdayOf(day int64) int {
	w := day + 4
	return int(w - floorDiv(w, daysPerWeek)*daysPerWeek)
}

// daysIn returns the days of m that match, as bits 1 to 31.
func (p *pattern) daysIn(m month) uint32 {
	var days uint32
	if p.months>>m.number&1 != 0 {
		days = p.days[m.length-28][m.weekday]
	}
	if p.amended != nil {
		a := p.amended[m.first]
		days = (days | a.with) &^ a.without
	}
	return days
}

// next returns the first match in [from, before).
func (p *pattern) next(from, before wall) (wall, bool) {
	if from >= before {
		return 0, false
	}
	day, second := from.split()
	m, number := monthOf(day)
	days := p.daysIn(m) >> number << number
	if days>>number&1 != 0 {
		if s, ok := p.secondFrom(second); ok {
			w := wall(day*secondsPerDay + s)
			return w, w < before
		}
		days &^= 1 << number
	}
	for days == 0 {
		if m = m.following(); m.start() >= before {
			return 0, false
		}
		days = p.daysIn(m)
	}
	w := m.start() + wall(bits.TrailingZeros32(days)-1)*secondsPerDay + wall(p.secondAt(0))
	return w, w < before
}

// secondFrom returns the first second of a matching day at or after second.
func (p *pattern) secondFrom(second int64) (int64, bool) {
	if n := p.rank(second); n < p.perDay {
		return p.secondAt(n), true
	}
	return 0, false
}

// rank returns how many seconds of a matching day lie before second.
func (p *pattern) rank(second int64) int64 {
	h, m, s := second/3600, second/60%60, second%60
	n := int64(bits.OnesCount64(p.hours&below(h))) * p.perHour
	if p.hours>>h&1 == 0 {
		return n
	}
	n += int64(bits.OnesCount64(p.minutes&below(m))) * p.perMinute
	if p.minutes>>m&1 == 0 {
		return n
	}
	return n + int64(bits.OnesCount64(p.seconds&below(s)))
}

// secondAt returns the n-th second of a matching day; n counts from 0.
func (p *pattern) secondAt(n int64) int64 {
	h := bitAt(p.hours, n/p.perHour)
	m := bitAt(p.minutes, n%p.perHour/p.perMinute)
	return int64(h*3600+m*60) + int64(bitAt(p.seconds, n%p.perMinute))
}

// count returns how many matches lie in [from, before). Its work grows with the months in between.
func (p *pattern) count(from, before wall) int64 {
	if from >= before {
		return 0
	}
	day, second := from.split()
	lastDay, lastSecond := before.split()
	m, number := monthOf(day)
	var n int64
	if p.daysIn(m)>>number&1 != 0 {
		n -= p.rank(second)
	}
	days := p.daysIn(m) >> number << number
	for m.first+int64(m.length) <= lastDay {
		n += int64(bits.OnesCount32(days)) * p.perDay
		m = m.following()
		days = p.daysIn(m)
	}
	number = int(lastDay - m.first + 1)
	n += int64(bits.OnesCount64(uint64(days)&below(int64(number)))) * p.perDay
	if days>>number&1 != 0 {
		n += p.rank(lastSecond)
	}
	return n
}

// nth returns the n-th match at or after from; n counts from 1, and the caller knows that there are
// so many.
func (p *pattern) nth(from wall, n int64) wall {
	day, second := from.split()
	m, number := monthOf(day)
	days := p.daysIn(m) >> number << number
	n--
	if days>>number&1 != 0 {
		n += p.rank(second)
	}
	for {
		if here := int64(bits.OnesCount32(days)) * p.perDay; n >= here {
			n -= here
			m = m.following()
			days = p.daysIn(m)
			continue
		}
		number = bitAt(uint64(days), n/p.perDay)
		return m.start() + wall(number-1)*secondsPerDay + wall(p.secondAt(n%p.perDay))
	}
}

// loneliest is what counts as the distance of matches of which there is but one in so many years.
const loneliest = 40

// shortest returns the shortest distance of two matches that follow each other, in s.
func (p *pattern) shortest() int64 {
	best := int64(loneliest * 365 * secondsPerDay)
	// Two matches that follow each other differ first in the second, the minute, the hour or the
	// day. From one minute, hour or day to the next it is from its last match to the first of the
	// next.
	span := int64(0) // from the first match in the unit to its last
	for _, unit := range []struct {
		set    uint64
		length int64
	}{{p.seconds, 1}, {p.minutes, 60}, {p.hours, 3600}} {
		if gap := closest(unit.set); gap > 0 {
			best = min(best, gap*unit.length-span)
		}
		span += int64(bits.Len64(unit.set)-1-bits.TrailingZeros64(unit.set)) * unit.length
	}
	return min(best, p.closestDays()*secondsPerDay-span)
}

// closest returns the smallest distance of two members of a set, or 0 if it has but one.
func closest(set uint64) int64 {
	best := 0
	for rest := set & (set - 1); rest != 0; rest &= rest - 1 {
		here := bits.TrailingZeros64(rest)
		if gap := here - (bits.Len64(set&below(int64(here))) - 1); best == 0 || gap < best {
			best = gap
		}
	}
	return int64(best)
}

// closestDays returns the smallest distance of two days that match, in days.
func (p *pattern) closestDays() int64 {
	best, previous := int64(loneliest*365), int64(-1)
	m, _ := monthOf(0)
	for range loneliest * 12 {
		for days := p.daysIn(m); days != 0; days &= days - 1 {
			day := m.first + int64(bits.TrailingZeros32(days)) - 1
			if previous >= 0 {
				best = min(best, day-previous)
			}
			if best == 1 {
				return best
			}
			previous = day
		}
		m = m.following()
	}
	return best
}

// below returns the set of the numbers from 0 to n−1; n is at most 63.
func below(n int64) uint64 { return 1<<n - 1 }

// bitAt returns the n-th member of a set; n counts from 0.
func bitAt(set uint64, n int64) int {
	for ; n > 0; n-- {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}
