package schedule

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// randomSchedule draws a schedule that compiles: cron with a zone, or an interval.
func randomSchedule(t *testing.T, rng *rand.Rand) (schema.Schedule, *Schedule) {
	t.Helper()
	for {
		sch := schema.Schedule{
			Every:  schema.Duration((MinEvery + time.Duration(rng.Int64N(int64(10*24*time.Hour)))).Truncate(time.Millisecond)),
			Anchor: time.UnixMilli(rng.Int64N(horizon.UnixMilli())),
		}
		if rng.IntN(4) > 0 {
			loc, ok := Location(pick(rng, zoneNames...))
			if !ok {
				t.Fatal("a zone cannot be loaded")
			}
			sch = randomOracle(rng, loc, time.Unix(rng.Int64N(130*365*secondsPerDay), 0).UTC()).schedule()
		}
		if rng.IntN(3) == 0 {
			sch.Start = time.UnixMilli(rng.Int64N(100 * 365 * secondsPerDay * 1000))
			sch.End = sch.Start.Add(time.Duration(1 + rng.Int64N(int64(100*365*24*time.Hour))))
		}
		s, err := Compile(sch, rng.Uint64())
		if err == nil {
			return sch, s
		}
		var faults Faults
		if !errors.As(err, &faults) || faults[0].Message != "never fires: no day matches it" && faults[0].Message != "never fires between start and end" {
			t.Fatalf("Compile(%+v): %v", sch, err)
		}
	}
}

// TestQuestionsAgree asks for the same times in every way there is.
func TestQuestionsAgree(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		sch, s := randomSchedule(t, rng)
		from := time.UnixMilli(rng.Int64N(130 * 365 * secondsPerDay * 1000)).UTC()
		const steps = 100
		var times []time.Time
		for u := range s.From(from) {
			if times = append(times, u); len(times) == steps {
				break
			}
		}
		previous := from
		for i, u := range times {
			switch {
			case !u.After(previous) || u.Location() != time.UTC || u.Nanosecond()%1e6 != 0:
				t.Fatalf("%+v after %v: time %d is %v, after %v", sch, from, i, u, previous)
			case u.Before(sch.Start) || !sch.End.IsZero() && !u.Before(sch.End):
				t.Fatalf("%+v after %v: time %d is %v, outside start and end", sch, from, i, u)
			}
			if got, ok := s.Next(previous); !ok || !got.Equal(u) {
				t.Fatalf("Next(%v) of %+v = %v, %v, want %v", previous, sch, got, ok, u)
			}
			if got, ok := s.Next(u.Add(-time.Nanosecond)); !ok || !got.Equal(u) {
				t.Fatalf("Next(just before %v) of %+v = %v, %v, want it", u, sch, got, ok)
			}
			if got, ok := s.Last(from, u); !ok || !got.Equal(u) {
				t.Fatalf("Last(%v, %v) of %+v = %v, %v, want the latter", from, u, sch, got, ok)
			}
			if got, ok := s.Last(from, u.Add(-time.Nanosecond)); ok != (i > 0) || ok && !got.Equal(previous) {
				t.Fatalf("Last(%v, just before %v) of %+v = %v, %v, want %v", from, u, sch, got, ok, previous)
			}
			if got := s.Count(from, u, steps); got != i+1 {
				t.Fatalf("Count(%v, %v) of %+v = %d, want %d", from, u, sch, got, i+1)
			}
			if got, ok := s.NthAfter(from, i+1); !ok || !got.Equal(u) {
				t.Fatalf("NthAfter(%v, %d) of %+v = %v, %v, want %v", from, i+1, sch, got, ok, u)
			}
			previous = u
		}
		if len(times) == steps {
			if got := s.Count(from, previous, steps-1); got != steps-1 {
				t.Fatalf("Count(%v, %v, limit %d) of %+v = %d", from, previous, steps-1, sch, got)
			}
			const far = 50_000
			if u, ok := s.NthAfter(from, far); ok && s.Count(from, u, far+1) != far {
				t.Fatalf("Count(%v, %v) of %+v = %d, want %d", from, u, sch, s.Count(from, u, far+1), far)
			}
		} else if u, ok := s.NthAfter(from, len(times)+1); ok {
			t.Fatalf("NthAfter(%v, %d) of %+v = %v, but Next has no more than %d", from, len(times)+1, sch, u, len(times))
		}
		if first, ok := s.Nth(1); !sch.Start.IsZero() {
			want, wantOK := s.Next(sch.Start.Add(-time.Nanosecond))
			if !ok || !wantOK || !first.Equal(want) {
				t.Fatalf("Nth(1) of %+v = %v, %v, want %v", sch, first, ok, want)
			}
		} else if ok {
			t.Fatalf("Nth(1) of %+v, which has no start, = %v", sch, first)
		}
	}
}

// TestShortestIsFoundByWalking compares Shortest with the distances that occur in UTC.
func TestShortestIsFoundByWalking(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	until := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 30 {
		o := randomOracle(rng, time.UTC, time.Unix(rng.Int64N(40*365*secondsPerDay), 0).UTC())
		sch := o.schedule()
		s, err := Compile(sch, 0)
		if err != nil {
			continue
		}
		perDay := s.rhythm.(*timetable).perDay
		everyDay := s.rhythm.(*timetable).closestDays() == 1
		want := loneliest * 365 * 24 * time.Hour
		var previous time.Time
		steps := 0
		for u := range s.From(time.Time{}) {
			if !previous.IsZero() {
				want = min(want, u.Sub(previous))
			}
			previous = u
			if steps++; !u.Before(until) || steps > 5_000 {
				break
			}
		}
		got := s.Shortest()
		if got > want || steps <= 5_000 && got != want || everyDay && int64(steps) > 400*perDay && got != want {
			t.Errorf("Shortest of %+v = %v, want %v (%d steps)", sch, got, want, steps)
		}
	}
}

func TestShortest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		schedule schema.Schedule
		want     time.Duration
	}{
		{schema.Schedule{Every: schema.Duration(1500 * time.Millisecond)}, 1500 * time.Millisecond},
		{schema.Schedule{Cron: "* * * * * *"}, time.Second},
		{schema.Schedule{Cron: "* * * * *"}, time.Minute},
		{schema.Schedule{Cron: "*/7 * * * *"}, 4 * time.Minute},
		{schema.Schedule{Cron: "59,0 * * * *"}, time.Minute},
		{schema.Schedule{Cron: "0,59 12 * * *"}, 59 * time.Minute},
		{schema.Schedule{Cron: "0 0,23 * * *"}, time.Hour},
		{schema.Schedule{Cron: "0 0,23 * * 1"}, 23 * time.Hour},
		{schema.Schedule{Cron: "@daily"}, 24 * time.Hour},
		{schema.Schedule{Cron: "0 0 * * 1,3"}, 48 * time.Hour},
		{schema.Schedule{Cron: "0 0 1 * *"}, 28 * 24 * time.Hour},
		{schema.Schedule{Cron: "0 0 1,L * *"}, 24 * time.Hour},
		{schema.Schedule{Cron: "@yearly"}, 365 * 24 * time.Hour},
		{schema.Schedule{Cron: "0 0 29 2 *"}, (4*365 + 1) * 24 * time.Hour},
	} {
		s, err := Compile(tt.schedule, 0)
		if err != nil {
			t.Errorf("Compile(%+v): %v", tt.schedule, err)
		} else if got := s.Shortest(); got != tt.want {
			t.Errorf("Shortest of %+v = %v, want %v", tt.schedule, got, tt.want)
		}
	}
}

func TestDefaultJitter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ shortest, want time.Duration }{
		{time.Second, 100 * time.Millisecond},
		{1009 * time.Millisecond, 100 * time.Millisecond},
		{time.Minute, 6 * time.Second},
		{100 * time.Second, 10 * time.Second},
		{time.Hour, 10 * time.Second},
		{0, 0},
		{-1, 0},
	} {
		if got := DefaultJitter(tt.shortest); got != tt.want {
			t.Errorf("DefaultJitter(%v) = %v, want %v", tt.shortest, got, tt.want)
		}
	}
}

// chiSquared returns how far counts are from even: about their number, if chance made them.
func chiSquared(counts []int, total int) float64 {
	want := float64(total) / float64(len(counts))
	var sum float64
	for _, n := range counts {
		d := float64(n) - want
		sum += d * d / want
	}
	return sum
}

func TestJitterSpreadsJobsOfOneInstantEvenly(t *testing.T) {
	t.Parallel()
	const jobs, window = 1_000_000, 10 * time.Second
	sch := schema.Schedule{Every: schema.Duration(time.Hour), Jitter: schema.Duration(window)}
	counts := make([]int, 1000)
	for i := range jobs {
		s, err := Compile(sch, schema.HashOf("job", strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		if s.Offset() < 0 || s.Offset() >= window || s.Offset()%time.Millisecond != 0 {
			t.Fatalf("Offset() = %v, want whole ms in [0, %v)", s.Offset(), window)
		}
		counts[s.Offset()/(window/1000)]++
	}
	// 999 degrees of freedom: chance gives 999 ± 45, and more than 1,250 once in ten million. The
	// ids are fixed.
	if x := chiSquared(counts, jobs); x > 1250 {
		t.Errorf("χ² of %d jobs over %d parts of the window = %.0f, want about %d", jobs, len(counts), x, len(counts))
	}
}

func TestJitterKeepsTheOrderOfAJobsRuns(t *testing.T) {
	t.Parallel()
	// The window is longer than the distance of two runs.
	s, err := Compile(schema.Schedule{Cron: "* * * * * *", Jitter: schema.Duration(MaxJitter)}, schema.HashOf("job"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Offset() < time.Minute {
		t.Fatalf("Offset() = %v: the test shows nothing", s.Offset())
	}
	var due []time.Time
	for u := range s.From(epoch) {
		if due = append(due, u.Add(s.Offset())); len(due) == 100 {
			break
		}
	}
	for i := 1; i < len(due); i++ {
		if due[i].Sub(due[i-1]) != time.Second {
			t.Errorf("run %d is due at %v, %v after the one before, want 1s", i, due[i], due[i].Sub(due[i-1]))
		}
	}
}

func TestHDrawsEachFieldOnItsOwn(t *testing.T) {
	t.Parallel()
	const jobs = 10_000
	minutes, weekdays, days := make([]int, 24*60), make([]int, daysPerWeek), make([]int, 28)
	for i := range jobs {
		var faults Faults
		drawn := func(field int) uint64 { return mix(schema.HashOf("job", strconv.Itoa(i)), uint64(field)) }
		e := parseCron("H H H * *", drawn, &faults)
		w := parseCron("H H ? * H", drawn, &faults)
		if len(faults) > 0 || e.perDay != 1 || w.perDay != 1 {
			t.Fatalf("parseCron: %v, %d times a day, want one", faults, e.perDay)
		}
		minutes[e.secondAt(0)/60]++
		day, _ := e.next(0, wall(31*secondsPerDay))
		n, _ := day.split()
		days[n]++
		day, _ = w.next(0, wall(7*secondsPerDay))
		n, _ = day.split()
		weekdays[weekdayOf(n)]++
	}
	for _, tt := range []struct {
		name   string
		counts []int
		most   float64 // what chance exceeds less than once in a million
	}{{"minutes of the day", minutes, 1720}, {"days of the month", days, 80}, {"days of the week", weekdays, 40}} {
		if x := chiSquared(tt.counts, jobs); x > tt.most {
			t.Errorf("χ² of H over the %s = %.0f, want at most %.0f: %v", tt.name, x, tt.most, tt.counts)
		}
	}
}

func TestTheSameSeedGivesTheSameTimes(t *testing.T) {
	t.Parallel()
	// These are stored in the ids of planned runs: a change here would plan every run of such jobs
	// a second time.
	s, err := Compile(schema.Schedule{Cron: "H H(0-5) H/10 * ?", Jitter: schema.Duration(time.Minute)}, schema.HashOf("a job's id"))
	if err != nil {
		t.Fatal(err)
	}
	u, ok := s.Next(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
	got := u.Add(s.Offset()).Format(time.RFC3339Nano)
	const want = "2026-11-24T02:06:21.753Z"
	if !ok || got != want {
		t.Errorf("due at %s, %v, want %s", got, ok, want)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, sch := range []schema.Schedule{
		{Cron: "30 2 * * MON-FRI", Timezone: "Europe/Berlin"},
		{Cron: "*/5 * * * * *"},
		{Every: schema.Duration(time.Minute)},
	} {
		s, err := Compile(sch, 0)
		if err != nil {
			t.Fatal(err)
		}
		u := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		if n := testing.AllocsPerRun(100, func() { u, _ = s.Next(u) }); n != 0 {
			t.Errorf("Next of %+v allocates %v times, want 0", sch, n)
		}
	}
}

func TestZeroScheduleHasNoTimes(t *testing.T) {
	t.Parallel()
	var s Schedule
	if u, ok := s.Next(epoch); ok {
		t.Errorf("Next = %v", u)
	}
	if u, ok := s.NthAfter(epoch, 1); ok {
		t.Errorf("NthAfter = %v", u)
	}
	if n, words, notes := s.Count(epoch, horizon, 1), s.Describe(), s.Notes(epoch, horizon); n != 0 || words != "never" || notes != nil {
		t.Errorf("Count, Describe, Notes = %d, %q, %v", n, words, notes)
	}
}

func FuzzCompile(f *testing.F) {
	for _, cron := range []string{
		"* * * * *", "*/5 9-17 * * MON-FRI", "0 0 L-3 * ?", "0 0 15W,LW 2 *", "0 0 * * FRI#3,7L", "H H(0-7)/2 H * *", "@hourly", "@every 1s",
		"TZ=UTC * * * * *", "0 0 30 2 *", "60 * * * *", "5/20 22-2 28-3 NOV-FEB 5-7 *", "*,*/2,H/3 * * * *", ",", "0 0 29 2 MON#5",
	} {
		f.Add(cron, "Europe/Berlin", "run", "both", int64(0), int64(0), int64(0), int64(0), int64(0), uint64(1))
	}
	f.Add("", "", "", "", int64(time.Hour), int64(1), int64(2), int64(3), int64(4), uint64(5))
	f.Fuzz(func(t *testing.T, cron, zone, gap, overlap string, every, anchor, start, end, jitter int64, seed uint64) {
		ms := func(n int64) time.Time {
			if n == 0 {
				return time.Time{}
			}
			return time.UnixMilli(n)
		}
		sch := schema.Schedule{
			Cron: cron, Timezone: zone, Gap: gap, OverlapHour: overlap, Every: schema.Duration(every), Anchor: ms(anchor),
			Start: ms(start), End: ms(end), Jitter: schema.Duration(jitter),
		}
		s, err := Compile(sch, seed)
		if err != nil {
			var faults Faults
			if s != nil || !errors.As(err, &faults) || len(faults) == 0 || len(err.Error()) > 3000 {
				t.Fatalf("Compile(%+v) = %v, %v, want Faults", sch, s, err)
			}
			return
		}
		if s.Describe() == "" || s.Shortest() < time.Second || s.Offset() < 0 || s.Offset() > max(0, sch.Jitter.Std()) {
			t.Fatalf("%+v: Describe %q, Shortest %v, Offset %v", sch, s.Describe(), s.Shortest(), s.Offset())
		}
		for _, from := range []time.Time{{}, sch.Start.Add(-1), time.Unix(1<<31, 0)} {
			previous, n := from, 0
			for u := range s.From(from) {
				if !u.After(previous) {
					t.Fatalf("%+v: %v comes after %v", sch, u, previous)
				}
				previous = u
				if n++; n == 10 {
					break
				}
			}
			if got := s.Count(from, previous, 11); got != n {
				t.Fatalf("Count(%v, %v) of %+v = %d, want %d", from, previous, sch, got, n)
			}
		}
		if _, ok := s.Next(time.Time{}); !ok {
			t.Fatalf("%+v compiles and has no time", sch)
		}
		if n := len(s.Notes(time.Time{}, time.Unix(1<<33, 0))); n > MaxNotes {
			t.Fatalf("%+v: %d notes", sch, n)
		}
	})
}
