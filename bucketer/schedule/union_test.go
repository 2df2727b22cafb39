package schedule

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

func utcTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// oracleInterval is an interval that leaves out dates of a zone.
type oracleInterval struct {
	every   time.Duration
	anchor  time.Time
	loc     *time.Location
	exclude []string
}

func (o oracleInterval) schedule() schema.Schedule {
	sch := schema.Schedule{Every: schema.Duration(o.every), Anchor: o.anchor, Exclude: o.exclude}
	if len(o.exclude) > 0 {
		sch.Timezone = o.loc.String()
	}
	return sch
}

// times walks over the seconds well inside of [from, to).
func (o oracleInterval) times(from, to time.Time, margin time.Duration) (all []time.Time) {
	for u := from.Add(margin); u.Before(to.Add(-margin)); u = u.Add(time.Second) {
		if u.Sub(o.anchor)%o.every == 0 && !slices.Contains(o.exclude, u.In(o.loc).Format(time.DateOnly)) {
			all = append(all, u)
		}
	}
	return all
}

// someDates draws dates around one.
func someDates(rng *rand.Rand, r time.Time) (dates []string) {
	for range rng.IntN(4) {
		dates = append(dates, r.AddDate(0, 0, rng.IntN(5)-2).Format(time.DateOnly))
	}
	return dates
}

// severalAgainstOracle compares several random schedules, some with excluded dates, with the union
// of what the oracle says of each, around a change of a zone.
func severalAgainstOracle(t *testing.T, seed uint64, zoneName string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	loc, _ := Location(zoneName)
	change := changeNear(rng, loc)
	_, before := change.Add(-time.Second).In(loc).Zone()
	_, behind := change.In(loc).Zone()
	margin := time.Duration(max(before-behind, behind-before))*time.Second + 3*time.Hour // of the change of any zone nearby
	around := margin + time.Duration(rng.IntN(8*3600))*time.Second
	from, to := change.Add(-around).UTC().Truncate(time.Second), change.Add(around).UTC().Truncate(time.Second)

	sch := schema.Schedule{Listed: true}
	var want []time.Time
	for range 1 + rng.IntN(3) {
		in := loc
		if rng.IntN(3) == 0 {
			in, _ = Location(pick(rng, changing...))
		}
		local := change.Add(-time.Second).In(in)
		r := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
		if rng.IntN(3) == 0 {
			o := oracleInterval{every: time.Duration(1+rng.IntN(5*3600)) * time.Second, anchor: change.Truncate(time.Second), loc: in, exclude: someDates(rng, r)}
			sch.Any, want = append(sch.Any, o.schedule()), append(want, o.times(from, to, margin)...)
			continue
		}
		o := randomOracle(rng, in, r)
		o.exclude = someDates(rng, r)
		if !o.firesAtAll() {
			continue
		}
		if rng.IntN(2) == 0 {
			o.calendar = &schema.ScheduleCalendar{Name: "c", On: pick(rng, "", "skip", "next_day", "previous_day"), Dates: someDates(rng, r)}
		}
		sch.Any, want = append(sch.Any, o.schedule()), append(want, o.times(from, to, margin)...)
	}
	if len(sch.Any) == 0 {
		return
	}
	s, err := Compile(sch, rng.Uint64())
	if err != nil {
		t.Fatalf("seed %d: Compile(%+v): %v", seed, sch, err)
	}
	slices.SortFunc(want, time.Time.Compare)
	want = slices.CompactFunc(want, time.Time.Equal)

	lo, hi := from.Add(margin-time.Millisecond), to.Add(-margin-time.Millisecond)
	var got []time.Time
	for u := range s.From(lo) {
		if u.After(hi) {
			break
		}
		got = append(got, u)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("seed %d: times of %+v between %v and %v, around the change of %s at %v (-want +got):\n%s", seed, sch, lo, hi, loc, change.UTC(), d)
	}
	if n := s.Count(lo, hi, 1<<40); n != len(want) {
		t.Fatalf("seed %d: Count(%v, %v) of %+v = %d, want %d", seed, lo, hi, sch, n, len(want))
	}
	last, ok := s.Last(lo, hi)
	if ok != (len(want) > 0) || ok && !last.Equal(want[len(want)-1]) {
		t.Fatalf("seed %d: Last(%v, %v) of %+v = %v, %v, want the last of %v", seed, lo, hi, sch, last, ok, want)
	}
	for _, i := range []int{0, len(want) / 2, len(want) - 1} {
		if i < 0 || i >= len(want) {
			continue
		}
		if nth, ok := s.NthAfter(lo, i+1); !ok || !nth.Equal(want[i]) {
			t.Fatalf("seed %d: NthAfter(%v, %d) of %+v = %v, %v, want %v", seed, lo, i+1, sch, nth, ok, want[i])
		}
	}
}

// TestSeveralSchedulesAreTheUnion: each instant is once, whichever of the schedules name it, also
// around dates that are excluded, and those of calendars.
func TestSeveralSchedulesAreTheUnion(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, name := range changing {
		for range 3 {
			severalAgainstOracle(t, rng.Uint64(), name)
		}
	}
}

func TestSeveralSchedules(t *testing.T) {
	t.Parallel()
	every := func(d time.Duration) schema.Schedule {
		return schema.Schedule{Every: schema.Duration(d), Anchor: utcTime("2026-11-01T00:00:00Z")}
	}
	for _, row := range []struct {
		name string
		sch  schema.Schedule
		want string // the first times after 2026-11-27T00:00:00Z
		says string
	}{
		{
			"two intervals",
			schema.Schedule{Listed: true, Any: []schema.Schedule{every(20 * time.Minute), every(30 * time.Minute)}},
			"00:20 00:30 00:40 01:00 01:20", "every 20 minutes, counted from 2026-11-01T00:00:00Z; and every 30 minutes, counted from 2026-11-01T00:00:00Z",
		},
		{
			"of two zones",
			schema.Schedule{Listed: true, Any: []schema.Schedule{{Cron: "0 9 * * *", Timezone: "Europe/Berlin"}, {Cron: "0 9 * * *", Timezone: "America/New_York"}}},
			"08:00 14:00 08:00 14:00 08:00", "at 09:00 every day, Europe/Berlin time; and at 09:00 every day, America/New_York time",
		},
		{
			"without a date",
			schema.Schedule{Any: []schema.Schedule{{Cron: "30 9 * * *", Exclude: []string{"2026-11-27", "2026-11-29"}}}},
			"09:30 09:30 09:30 09:30 09:30", "at 09:30 every day, but not on 2026-11-27 and 2026-11-29, UTC",
		},
		{
			"the next working day",
			schema.Schedule{Any: []schema.Schedule{{
				Cron: "30 9 28 * *", Calendar: &schema.ScheduleCalendar{Name: "closed", On: "next_day", Dates: []string{"2026-11-28", "2026-11-29", "2026-12-28"}},
			}}},
			"11-30 12-29 01-28 02-28 03-28", "at 09:30 on day 28 of the month, on dates of closed on the next day that is none, UTC",
		},
		{
			"the working day before, over the end of a month",
			schema.Schedule{Any: []schema.Schedule{{
				Cron: "30 9 1 * *", Calendar: &schema.ScheduleCalendar{Name: "closed", On: "previous_day", Dates: []string{"2026-12-01", "2026-11-30", "2027-01-01"}},
			}}},
			"11-29 12-31 02-01 03-01 04-01", "at 09:30 on day 1 of the month, on dates of closed on the day before that is none, UTC",
		},
		{
			"where it runs anyway, it runs once",
			schema.Schedule{Any: []schema.Schedule{{
				Cron: "30 9 * * *", Exclude: []string{"2026-11-30"}, Calendar: &schema.ScheduleCalendar{Name: "closed", On: "next_day", Dates: []string{"2026-11-29", "2026-12-01"}},
			}}},
			"11-27 11-28 12-02 12-03 12-04", "at 09:30 every day, but not on 2026-11-30, on dates of closed on the next day that is none, UTC",
		},
		{
			"an interval skips",
			schema.Schedule{Any: []schema.Schedule{{
				Every: schema.Duration(24 * time.Hour), Calendar: &schema.ScheduleCalendar{Name: "closed", Dates: []string{"2026-11-28"}},
			}}},
			"11-29 11-30 12-01 12-02 12-03", "every day, counted from 1970-01-01T00:00:00Z, but not on dates of closed",
		},
		{
			"an interval without a date",
			schema.Schedule{Any: []schema.Schedule{{Every: schema.Duration(8 * time.Hour), Timezone: "Europe/Berlin", Exclude: []string{"2026-11-27"}}}},
			"00:00 08:00 16:00 00:00 08:00", "every 8 hours, counted from 1970-01-01T00:00:00Z, but not on 2026-11-27 in Europe/Berlin",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if err := Check(row.sch, utcTime("2026-11-27T00:00:00Z")); err != nil {
				t.Fatalf("Check = %v", err)
			}
			s, err := Compile(row.sch, 1)
			if err != nil {
				t.Fatalf("Compile = %v", err)
			}
			var got []string
			for u := range s.From(utcTime("2026-11-27T00:00:00Z")) {
				layout := "15:04"
				if strings.Contains(row.want, "-") {
					layout = "01-02"
				}
				if got = append(got, u.Format(layout)); len(got) == 5 {
					break
				}
			}
			if strings.Join(got, " ") != row.want || s.Describe() != row.says {
				t.Errorf("times %v, %q; want %s, %q", got, s.Describe(), row.want, row.says)
			}
		})
	}
}

// TestSeveralSchedulesThatAreWrong: each fault says which of them has it.
func TestSeveralSchedulesThatAreWrong(t *testing.T) {
	t.Parallel()
	good := schema.Schedule{Cron: "0 9 * * *"}
	var dates []string
	for i := range MaxDates + 1 {
		dates = append(dates, dateText(20000+int64(i)))
	}
	for _, row := range []struct {
		name string
		sch  schema.Schedule
		want []string
	}{
		{"one of them", schema.Schedule{Listed: true, Any: []schema.Schedule{good, {Cron: "0 9 * * * * *"}, {Every: 1}}}, []string{"any[1].cron", "any[2].every"}},
		{"not stated as a list", schema.Schedule{Any: []schema.Schedule{{Cron: "0 99 * * *", Exclude: []string{"2026-12-25"}}}}, []string{"cron"}},
		{"dates", schema.Schedule{Listed: true, Any: []schema.Schedule{{Cron: "0 9 * * *", Exclude: []string{"2026-02-29", "x"}}}}, []string{"any[0].exclude", "any[0].exclude"}},
		{"too many dates", schema.Schedule{Any: []schema.Schedule{{Cron: "0 9 * * *", Exclude: dates}}}, []string{"exclude", "any"}},
		{"what becomes of dates of a calendar", schema.Schedule{Listed: true, Any: []schema.Schedule{
			{Cron: "0 9 * * *", Calendar: &schema.ScheduleCalendar{Name: "c", On: "later"}},
			{Every: schema.Duration(time.Hour), Calendar: &schema.ScheduleCalendar{Name: "c", On: "next_day"}},
		}}, []string{"any[0].calendar.on", "any[1].calendar.on"}},
		{"dates of calendars", schema.Schedule{Listed: true, Any: []schema.Schedule{
			{Cron: "0 9 * * *", Calendar: &schema.ScheduleCalendar{Name: "c", Dates: dates}}, {Cron: "0 9 * * *", Calendar: &schema.ScheduleCalendar{Name: "c", Dates: dates}},
		}}, []string{"any"}},
		{"lists in lists", schema.Schedule{Listed: true, Any: []schema.Schedule{{Cron: "0 9 * * *", Any: []schema.Schedule{good}}}}, []string{"any[0].any"}},
		{"a zone of all", schema.Schedule{Listed: true, Timezone: "UTC", Any: []schema.Schedule{good}}, []string{"any"}},
		{"too many", schema.Schedule{Listed: true, Any: slices.Repeat([]schema.Schedule{good}, MaxAny+1)}, []string{"any"}},
		{"one that has no time to come", schema.Schedule{Listed: true, End: utcTime("2026-12-01T00:00:00Z"), Any: []schema.Schedule{good, {Cron: "0 0 1 1 *"}}}, []string{"any[1]"}},
		{"one whose only day is excluded", schema.Schedule{End: utcTime("2027-01-02T00:00:00Z"), Any: []schema.Schedule{{Cron: "0 0 1 1 *", Exclude: []string{"2027-01-01"}}}}, []string{""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var faults Faults
			if err := Check(row.sch, utcTime("2026-11-27T00:00:00Z")); !errors.As(err, &faults) {
				t.Fatalf("Check = %v, want faults", err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.Location)
			}
			if d := cmp.Diff(row.want, got); d != "" {
				t.Errorf("Check = %v: locations (-want +got):\n%s", faults, d)
			}
		})
	}
}
