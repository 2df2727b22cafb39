// Package schedule is the time maths of recurring jobs: which instants a cron expression in a time
// zone or an interval names, and by how much jitter moves them. It is pure: it reads no clock, no
// file and no environment, and the same schedule and seed give the same times on every node.
//
// An expression is a set of times on a wall clock that knows no zone ([wall], pattern). A zone is a
// list of spans, in each of which its clock runs evenly; between two spans it jumps forward (a gap:
// times that it never shows) or back (an overlap: times that it shows twice). A nominal time is an
// instant at which the two meet. No library's idea of daylight saving time is involved.
//
// # Invariants
//
//  1. Nominal times are UTC, whole ms (of a cron expression: whole seconds), strictly increasing,
//     and each occurs once. They lie in [start, end) and in the years 1970 to 2399.
//  2. An expression whose minute or hour is a wildcard ("*", "*/n", "H/n", also in a list) follows
//     elapsed time: it fires at every instant whose wall clock matches, so never for what a gap
//     leaves out, and twice in an overlap. gap and overlap_hour are checked, and change nothing.
//  3. Every other expression names fixed times. What a gap leaves out fires at the gap's end
//     ("run") or not at all ("skip"); however many times a gap leaves out, and whatever is due at
//     its end anyway, its end is one instant and fires once. What an overlap has twice fires the
//     first time, the second time or both times. A day that a zone never had (Apia, 2011-12-30) is
//     a gap like any other.
//  4. A day matches if day of month and day of week both match; if neither of them is a wildcard or
//     "?", it is enough that one does (as in every cron; "*/2" is a wildcard there too). A day that
//     a month does not have is not moved: "31" skips April, "31W" too.
//  5. H is drawn from the seed for each field on its own, so "H H * * *" has 1440 places and not
//     the 120 of one draw for both. Of the days of a month it takes 1 to 28, which every month has.
//  6. An interval fires at anchor + k · every for every whole k, also before the anchor; start and
//     end bound it. Without an anchor k counts from 1970: who makes a job sets the anchor to its
//     creation. The clock's zone plays no part.
//  7. The jitter's offset is one number for a job, so its runs keep their order, and 0 ≤ offset <
//     window.
//  8. Zones come from data embedded in this package only, never from the system or ZONEINFO:
//     [ZonesVersion] names the release. New data may move nominal times that lie in the future.
//  9. Excluded dates (exclude) are those of the zone's calendar. A cron expression does not name
//     them: a time of an excluded date is not there, also where it would run at the end of a gap on
//     the next date. Of an interval, the instants at which a clock in the zone shows one are left
//     out.
//  10. What a cron expression names on a date of the schedule's calendar is left out (skip), or
//     moves by whole days of the zone's calendar to the nearest date after it (next_day) or before
//     it (previous_day) that is none of the calendar; there it runs at its time of day, once,
//     whatever else is due then, and by the rules for gaps and overlaps of that date. What is
//     excluded neither moves nor is moved to. An interval only skips.
//  11. Of several schedules (any) a job has the union, in which each instant is once. H is the same
//     number in all of them. Each must have a time to come.
//  12. A schedule that compiles has at least one nominal time. Nothing here takes more than a few
//     ms, whatever it is given: Next costs at most a look at each month until 2400, Count and Last
//     the same, whatever the number of times. Of several schedules Count and NthAfter walk.
//
// # What is understood
//
// Five fields, or six with the second first; "*", numbers, names in any case, ranges (also over the
// end: 22-2, NOV-FEB), steps, lists; L, L-3, LW, 15W as days of the month; FRI#3, FRI#L, FRIL, and
// 7 for Sunday as days of the week; "?" for "*" in either; H, H/15, H(0-29), H(0-29)/10; @yearly,
// @annually, @monthly, @weekly, @daily, @midnight, @hourly. A step counts from the start of its
// range: 5/20 is 5-max/20.
//
// # Why there are no recurrence rules (RRULE)
//
// github.com/teambition/rrule-go (v1.8.2) was tried on cases of the oracle of the tests, and fails
// them, since it asks time.Date for wall-clock times that a zone leaves out or has twice:
//
//	daily at 02:30, Berlin, 2026-03-29     03:30 instead of the gap's end, 03:00
//	the same on 2026-10-25                 the second 02:30, and never the first
//	hourly over the gap                    01:00Z twice
//	hourly over the overlap                nothing between 23:00Z and 01:00Z: an hour is left out
//	every 30 minutes over the gap          01:00Z and 01:30Z twice, and out of order
//	daily at 12:00, Apia, 2011-12-30       12:00 of the day before twice
//
// So several schedules, dates that are left out, and intervals stand for what rules would say.
//
// # New zone data
//
// zoneinfo.zip is lib/time/zoneinfo.zip of the Go distribution, which is made from the release that
// DATA in lib/time/update.bash names. Copy the one and set zonesVersion to the other; the tests
// compare both with the toolchain they run with.
//
// # Files
//
//	schedule.go            a compiled schedule: next, last, count, n-th
//	check.go               what holds whatever H draws
//	cron.go, zone.go       a cron rule in a zone: gaps and overlaps
//	pattern.go             wall-clock times of a rule, without a zone
//	expression.go          cron text to fields
//	interval.go            every
//	days.go                dates that are left out
//	union.go               several schedules
//	describe.go, notes.go  a schedule in words; what changes of clocks do
package schedule
