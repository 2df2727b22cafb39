package schedule

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

// The oracle knows a schedule as predicates over what a clock shows, and finds nominal times by
// walking the seconds. It shares nothing with the code but the zone data.

// reading is what a clock on the wall shows, as if it showed UTC.
type reading = time.Time

// oracleField is a field of an expression: how it is written and what it matches.
type oracleField struct {
	text  string
	wild  bool
	match func(reading) bool
}

// oracle is a random cron schedule.
type oracle struct {
	fields  [fieldCount]oracleField
	loc     *time.Location
	gap     string
	overlap string
	exclude []string // dates
	// what it does on dates of a calendar; nil: there is none
	calendar *schema.ScheduleCalendar
}

func (o oracle) schedule() schema.Schedule {
	texts := make([]string, fieldCount)
	for i, f := range o.fields {
		texts[i] = f.text
	}
	return schema.Schedule{Cron: strings.Join(texts, " "), Timezone: o.loc.String(), Gap: o.gap, OverlapHour: o.overlap, Exclude: o.exclude, Calendar: o.calendar}
}

func (o oracle) elapsed() bool { return o.fields[fieldMinute].wild || o.fields[fieldHour].wild }

// matches reports whether the expression names what the clock shows.
func (o oracle) matches(r reading) bool {
	for _, i := range []int{fieldSecond, fieldMinute, fieldHour} {
		if !o.fields[i].match(r) {
			return false
		}
	}
	holiday := func(r reading) bool {
		return o.calendar != nil && slices.Contains(o.calendar.Dates, r.Format(time.DateOnly))
	}
	excluded := func(r reading) bool { return slices.Contains(o.exclude, r.Format(time.DateOnly)) }
	if excluded(r) || holiday(r) {
		return false
	}
	if o.namesDay(r) {
		return true
	}
	step := 0
	if o.calendar != nil {
		step = map[string]int{"next_day": -1, "previous_day": 1}[o.calendar.On]
	}
	if step != 0 { // does anything move here?
		for day := r.AddDate(0, 0, step); holiday(day); day = day.AddDate(0, 0, step) {
			if o.namesDay(day) && !excluded(day) {
				return true
			}
		}
	}
	return false
}

// namesDay reports whether the expression names the date that the clock shows.
func (o oracle) namesDay(r reading) bool {
	if !o.fields[fieldMonth].match(r) {
		return false
	}
	month, week := o.fields[fieldDay], o.fields[fieldWeekday]
	if month.wild || week.wild {
		return month.match(r) && week.match(r)
	}
	return month.match(r) || week.match(r)
}

// times walks from one instant to another and returns the nominal times well inside: at least
// margin from both.
func (o oracle) times(from, to time.Time, margin time.Duration) []time.Time {
	shown := map[reading][]time.Time{} // of readings that match: the instants that show them
	// of readings that match and were left out: the first instant that shows a later one
	back := map[reading]time.Time{}
	var last reading
	for u := from; u.Before(to); u = u.Add(time.Second) {
		local := u.In(o.loc)
		year, mon, day := local.Date()
		hour, minute, second := local.Clock()
		r := time.Date(year, mon, day, hour, minute, second, 0, time.UTC)
		if !last.IsZero() {
			for out := last.Add(time.Second); out.Before(r); out = out.Add(time.Second) {
				if o.matches(out) {
					back[out] = u
				}
			}
		}
		if o.matches(r) {
			shown[r] = append(shown[r], u)
		}
		last = r
	}
	due := map[time.Time]bool{}
	for _, at := range shown {
		switch {
		case o.elapsed() || o.overlap == "both":
			for _, u := range at {
				due[u] = true
			}
		case o.overlap == "second":
			due[at[len(at)-1]] = true
		default:
			due[at[0]] = true
		}
	}
	for r, u := range back {
		if len(shown[r]) == 0 && !o.elapsed() && o.gap != "skip" {
			due[u] = true
		}
	}
	var times []time.Time
	for u := range due {
		if !u.Before(from.Add(margin)) && u.Before(to.Add(-margin)) {
			times = append(times, u)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// randomOracle draws a schedule that is likely to fire around r.
func randomOracle(rng *rand.Rand, loc *time.Location, r reading) oracle {
	o := oracle{
		loc:     loc,
		gap:     pick(rng, "", "run", "skip"),
		overlap: pick(rng, "", "first", "second", "both"),
	}
	o.fields[fieldSecond] = oracleField{text: "0", match: func(r reading) bool { return r.Second() == 0 }}
	if rng.IntN(4) == 0 {
		o.fields[fieldSecond] = randomNumbers(rng, 0, 59, r.Second(), nil, reading.Second)
	}
	o.fields[fieldMinute] = randomNumbers(rng, 0, 59, pick(rng, 0, 1, 15, 30, 45, 59, r.Minute()), nil, reading.Minute)
	o.fields[fieldHour] = randomNumbers(rng, 0, 23, (r.Hour()+rng.IntN(5)+22)%24, nil, reading.Hour)
	any := oracleField{text: "*", wild: true, match: func(reading) bool { return true }}
	o.fields[fieldDay], o.fields[fieldMonth], o.fields[fieldWeekday] = any, any, any
	names := []string{"", "jan", "feb", "MAR", "apr", "May", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	if rng.IntN(6) == 0 {
		o.fields[fieldMonth] = randomNumbers(rng, 1, 12, int(r.Month()), names, func(r reading) int { return int(r.Month()) })
	}
	if rng.IntN(3) == 0 {
		o.fields[fieldDay] = randomDay(rng, r)
	}
	if rng.IntN(3) == 0 {
		o.fields[fieldWeekday] = randomWeekday(rng, r)
	}
	return o
}

// randomNumbers draws a list of numbers, ranges and steps; near is likely to be in it.
func randomNumbers(rng *rand.Rand, low, high, near int, names []string, value func(reading) int) oracleField {
	set := map[int]bool{}
	write := func(n int) string {
		if names != nil && rng.IntN(2) == 0 {
			return names[n]
		}
		return fmt.Sprint(n)
	}
	var f oracleField
	var texts []string
	for range 1 + rng.IntN(3) {
		a := near
		if rng.IntN(3) == 0 {
			a = low + rng.IntN(high-low+1)
		}
		size := high - low + 1
		switch rng.IntN(6) {
		case 0:
			texts = append(texts, "*")
			f.wild = true
			for n := low; n <= high; n++ {
				set[n] = true
			}
		case 1:
			step := 1 + rng.IntN(size-1)
			texts = append(texts, fmt.Sprintf("*/%d", step))
			f.wild = true
			for n := low; n <= high; n += step {
				set[n] = true
			}
		case 2: // a range, which may go over the end
			length := 1 + rng.IntN(size-1)
			texts = append(texts, write(a)+"-"+write(low+(a-low+length)%size))
			for i := range length + 1 {
				set[low+(a-low+i)%size] = true
			}
		case 3: // a range with a step
			b := a + rng.IntN(high-a+1)
			step := 1
			if b > a {
				step += rng.IntN(b - a)
			}
			texts = append(texts, fmt.Sprintf("%s-%s/%d", write(a), write(b), step))
			for n := a; n <= b; n += step {
				set[n] = true
			}
		default:
			texts = append(texts, write(a))
			set[a] = true
		}
	}
	f.text = strings.Join(texts, ",")
	f.match = func(r reading) bool { return set[value(r)] }
	return f
}

func randomDay(rng *rand.Rand, r reading) oracleField {
	lastOf := func(r reading) reading { return time.Date(r.Year(), r.Month()+1, 0, 0, 0, 0, 0, time.UTC) }
	weekend := func(r reading) bool { return r.Weekday() == time.Saturday || r.Weekday() == time.Sunday }
	near := r.Day()
	switch rng.IntN(6) {
	case 0:
		return oracleField{text: "l", match: func(r reading) bool { return r.Day() == lastOf(r).Day() }}
	case 1:
		n := 1 + rng.IntN(30)
		return oracleField{text: fmt.Sprintf("L-%d", n), match: func(r reading) bool { return r.Day() == lastOf(r).Day()-n }}
	case 2:
		return oracleField{text: "LW", match: func(r reading) bool {
			d := lastOf(r)
			for weekend(d) {
				d = d.AddDate(0, 0, -1)
			}
			return r.Day() == d.Day()
		}}
	case 3:
		n := min(max(near+rng.IntN(5)-2, 1), 31)
		return oracleField{text: fmt.Sprintf("%dW", n), match: func(r reading) bool {
			d := time.Date(r.Year(), r.Month(), n, 0, 0, 0, 0, time.UTC)
			if d.Month() != r.Month() {
				return false
			}
			for _, move := range []int{0, -1, 1, -2, 2} {
				// the nearest; no day has a weekend day at both sides
				if e := d.AddDate(0, 0, move); !weekend(e) && e.Month() == r.Month() {
					return r.Day() == e.Day()
				}
			}
			return false
		}}
	default:
		return randomNumbers(rng, 1, 31, near, nil, reading.Day)
	}
}

func randomWeekday(rng *rand.Rand, r reading) oracleField {
	names := []string{"SUN", "mon", "Tue", "WED", "THU", "FRI", "SAT"}
	near := int(r.Weekday())
	switch rng.IntN(6) {
	case 0:
		n := 1 + rng.IntN(5)
		return oracleField{text: fmt.Sprintf("%s#%d", names[near], n), match: func(r reading) bool {
			return int(r.Weekday()) == near && (r.Day()+6)/7 == n
		}}
	case 1:
		return oracleField{text: pick(rng, fmt.Sprint(near)+"#L", names[near]+"L"), match: func(r reading) bool {
			return int(r.Weekday()) == near && r.AddDate(0, 0, 7).Month() != r.Month()
		}}
	case 2:
		return oracleField{text: "7", match: func(r reading) bool { return r.Weekday() == time.Sunday }}
	default:
		return randomNumbers(rng, 0, 6, near, names, func(r reading) int { return int(r.Weekday()) })
	}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// changing are zones whose clocks change in every way there is.
var changing = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Cairo", "Antarctica/Troll", "Pacific/Apia",
	"America/Nuuk", "Africa/Casablanca",
}

// zoneNames are all zones, sorted.
var zoneNames = slices.Sorted(maps.Keys(zoneFiles()))

// changeNear returns a change of the zone's offset after a random instant between 1970 and 2100, or
// that instant.
func changeNear(rng *rand.Rand, loc *time.Location) time.Time {
	t := time.Unix(rng.Int64N(130*365*secondsPerDay), 0)
	for range 4 { // the ends of years may come first
		_, end := t.In(loc).ZoneBounds()
		if end.IsZero() || end.Before(t) {
			return t
		}
		_, before := end.Add(-time.Second).Zone()
		if _, behind := end.Zone(); before != behind {
			return end
		}
		t = end
	}
	return t
}

// againstOracle compares a random schedule with the oracle around a change of a zone.
func againstOracle(t *testing.T, seed uint64, zoneName string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	loc, ok := Location(zoneName)
	if !ok {
		t.Fatalf("Location(%q): not found", zoneName)
	}
	change := changeNear(rng, loc)
	_, before := change.Add(-time.Second).In(loc).Zone()
	_, behind := change.In(loc).Zone()
	jump := time.Duration(max(before-behind, behind-before)) * time.Second
	margin := jump + time.Minute
	around := margin + jump + time.Duration(rng.IntN(7200))*time.Second
	from, to := change.Add(-around).UTC(), change.Add(around).UTC()

	local := change.Add(-time.Second).In(loc)
	r := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	o := randomOracle(rng, loc, r)
	sch := o.schedule()
	s, err := Compile(sch, rng.Uint64())
	if err != nil {
		if _, valid := strings.CutSuffix(err.Error(), "never fires: no day matches it"); valid && !o.firesAtAll() {
			return
		}
		t.Fatalf("seed %d: Compile(%+v): %v", seed, sch, err)
	}

	lo, hi := from.Add(margin), to.Add(-margin)
	want := o.times(from, to, margin)
	var got []time.Time
	for u := range s.From(lo.Add(-time.Millisecond)) {
		if !u.Before(hi) {
			break
		}
		got = append(got, u)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("seed %d: times of %+v between %v and %v, around the change of %s at %v (-want +got):\n%s", seed, sch, lo, hi, loc, change.UTC(), d)
	}
	afterLo, beforeHi := lo.Add(-time.Millisecond), hi.Add(-time.Millisecond)
	if n := s.Count(afterLo, beforeHi, 1<<40); n != len(want) {
		t.Fatalf("seed %d: Count(%v, %v) of %+v = %d, want %d", seed, afterLo, beforeHi, sch, n, len(want))
	}
	last, ok := s.Last(afterLo, beforeHi)
	if ok != (len(want) > 0) || ok && !last.Equal(want[len(want)-1]) {
		t.Fatalf("seed %d: Last(%v, %v) of %+v = %v, %v, want the last of %v", seed, afterLo, beforeHi, sch, last, ok, want)
	}
	if len(want) > 0 {
		n := 1 + rng.IntN(len(want))
		if nth, ok := s.NthAfter(afterLo, n); !ok || !nth.Equal(want[n-1]) {
			t.Fatalf("seed %d: NthAfter(%v, %d) of %+v = %v, %v, want %v", seed, afterLo, n, sch, nth, ok, want[n-1])
		}
	}
}

// firesAtAll walks the days of the calendar's period.
func (o oracle) firesAtAll() bool {
	for day := epoch; day.Before(horizon); day = day.AddDate(0, 0, 1) {
		month, week := o.fields[fieldDay], o.fields[fieldWeekday]
		days := month.match(day) || week.match(day)
		if month.wild || week.wild {
			days = month.match(day) && week.match(day)
		}
		if days && o.fields[fieldMonth].match(day) {
			return true
		}
	}
	return false
}

func TestTimesAreThoseOfTheOracle(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 50 {
		againstOracle(t, rng.Uint64(), pick(rng, zoneNames...))
	}
	for _, name := range changing {
		for range 4 {
			againstOracle(t, rng.Uint64(), name)
		}
	}
}

func FuzzTimesAgainstOracle(f *testing.F) {
	for i, name := range changing {
		f.Add(uint64(i), name)
	}
	f.Fuzz(func(t *testing.T, seed uint64, name string) {
		if !slices.Contains(zoneNames, name) {
			name = zoneNames[seed%uint64(len(zoneNames))]
		}
		againstOracle(t, seed, name)
	})
}
