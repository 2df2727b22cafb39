package schedule

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// asked is when the schedules of these tests are asked for.
var asked = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		sch  schema.Schedule
		want string // part of the fault; "" = none
	}{
		{"every minute", schema.Schedule{Cron: "* * * * *"}, ""},
		{"the leap day", schema.Schedule{Cron: "0 0 29 2 *"}, ""},
		{"a fifth Monday in February, every 28 years", schema.Schedule{Cron: "0 0 * 2 MON#5"}, "names no time between 2026-11-21 and 2044-02-29: at most 10 years"},
		{"the same or another day", schema.Schedule{Cron: "0 0 * 2,3 MON#5"}, ""},
		{"the longest interval", schema.Schedule{Every: schema.Duration(MaxEvery), Anchor: asked}, ""},
		{"the longest interval that begins late", schema.Schedule{Every: schema.Duration(MaxEvery), Anchor: asked, Start: asked.AddDate(9, 0, 0)}, ""},
		{"the longest interval that begins just too late", schema.Schedule{Every: schema.Duration(MaxEvery), Anchor: asked, Start: asked.AddDate(10, 0, 0)}, "names no time between"},
		{"a start beyond ten years", schema.Schedule{Cron: "@yearly", Start: asked.AddDate(9, 11, 0)}, "names no time between 2026-11-21 and 2037-01-01"},
		{"an end that is past", schema.Schedule{Cron: "* * * * *", End: asked}, "names no time from now on"},
		{"an end before a late time", schema.Schedule{Cron: "0 0 * 2 MON#5", End: asked.AddDate(1, 0, 0)}, "names no time from now on"},

		{"a month drawn of all, on a day that not all have", schema.Schedule{Cron: "0 0 31 H *"}, "never fires: no day matches it"},
		{"a month drawn of those that have the day", schema.Schedule{Cron: "0 0 31 H(7-8) *"}, ""},
		{"the same beside another month", schema.Schedule{Cron: "0 0 31 1,H *"}, ""},
		{"half-yearly: one of the two has the day", schema.Schedule{Cron: "0 0 31 H/6 *"}, ""},
		{"a month drawn of all, on a day that is rare in one", schema.Schedule{Cron: "0 0 * H MON#5"}, "names no time between"},
		{"two draws of a month", schema.Schedule{Cron: "0 0 1 H(1-2),H(3-4) *"}, "H may stand there once"},
		{"days, weekdays and times drawn", schema.Schedule{Cron: "H H H H H H"}, ""},
		{"a wrong draw", schema.Schedule{Cron: "0 0 1 H(0-40) *"}, "must draw from a range"},

		{"drawn times and an end tomorrow", schema.Schedule{Cron: "H H * * *", End: asked.Add(30 * time.Hour)}, "names no time from now on for some draws of H"},
		{"drawn times and an end in four days", schema.Schedule{Cron: "H H * * *", End: asked.AddDate(0, 0, 4)}, ""},
		{"drawn days and an end in a month", schema.Schedule{Cron: "0 0 H * *", End: asked.AddDate(0, 1, 0)}, "for some draws of H"},

		{
			"drawn times on days on which the clocks change alone, and they are skipped",
			schema.Schedule{Cron: "H H * 3 SUNL", Timezone: "Europe/Berlin", Gap: "skip"},
			"on each of its days",
		},
		{"the same, run at the gap's end", schema.Schedule{Cron: "H H * 3 SUNL", Timezone: "Europe/Berlin"}, ""},
		{"the same, following elapsed time", schema.Schedule{Cron: "H * * 3 SUNL", Timezone: "Europe/Berlin", Gap: "skip"}, ""},
		{"a month drawn, of which one has such a day", schema.Schedule{Cron: "H H * H SUNL", Timezone: "Europe/Berlin", Gap: "skip"}, "on each of its days"},
		{
			"a day drawn of the only month, on which the zone leaves out what may be drawn",
			schema.Schedule{Cron: "0 2 H/22 H 3 SUN#2", Timezone: "America/New_York", Gap: "skip", End: time.Date(2027, 6, 1, 8, 4, 22, 678e6, time.UTC)},
			"on each of its days",
		},
		{
			"the same for some years",
			schema.Schedule{Cron: "0 2 H/22 H 3 SUN#2", Timezone: "America/New_York", Gap: "skip", End: time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)},
			"",
		},
		{
			"two days drawn of the only month, on one of which the zone leaves out what may be drawn",
			schema.Schedule{Cron: "H H H H/13 3 H", Timezone: "America/New_York", Gap: "skip", Start: time.Date(2027, 10, 12, 18, 45, 30, 576e6, time.UTC)},
			"on some of its days",
		},
		{"the same, run at the gap's end", schema.Schedule{Cron: "H H H H/13 3 MON", Timezone: "America/New_York"}, ""},
		{"drawn times every day", schema.Schedule{Cron: "H H(0-5) * * *", Timezone: "Europe/Berlin", Gap: "skip"}, ""},
		{"a zone that nobody knows", schema.Schedule{Cron: "H H * * *", Timezone: "Europe/Atlantis"}, "IANA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Check(c.sch, asked)
			var faults Faults
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &faults) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check(%+v) = %v, want %q", c.sch, err, c.want)
			}
		})
	}
}

// TestWhatIsCheckedFiresForEverySeed: of whatever Check lets pass, every job has a time to come,
// and each time has a next one within ten years or none.
func TestWhatIsCheckedFiresForEverySeed(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	passed := 0
	for range 1500 {
		sch := hashedSchedule(rng)
		if Check(sch, asked) != nil {
			continue
		}
		passed++
		for range 40 {
			job := rng.Uint64() >> 2
			s, err := Compile(sch, job)
			if err != nil {
				t.Fatalf("Compile(%+v, %d) = %v, and Check found nothing", sch, job, err)
			}
			last := asked
			for n := range 3 {
				next, ok := s.Next(last)
				if !ok && n == 0 || ok && next.After(last.AddDate(MaxAhead, 0, 0)) {
					t.Fatalf("Next(%v) of %+v for the seed %d = %v, %v, want a time within %d years", last, sch, job, next, ok, MaxAhead)
				}
				if !ok {
					break
				}
				last = next
			}
		}
	}
	if passed < 300 {
		t.Errorf("Check let %d schedules pass: the test shows little", passed)
	}
}

// hashedSchedule draws a cron schedule, most of whose fields are drawn by H.
func hashedSchedule(rng *rand.Rand) schema.Schedule {
	number := func(low, high int) string { return strconv.Itoa(low + rng.IntN(high-low+1)) }
	field := func(low, high, drawnFrom, drawnTo int, also ...string) string {
		a := drawnFrom + rng.IntN(drawnTo-drawnFrom+1)
		b := a + rng.IntN(drawnTo-a+1)
		return pick(rng, append(also, "*", "H", "H", number(low, high), "H("+strconv.Itoa(a)+"-"+strconv.Itoa(b)+")",
			"H/"+number(1, drawnTo-drawnFrom), number(low, high)+",H")...)
	}
	sch := schema.Schedule{
		Cron: strings.Join([]string{
			pick(rng, "0", "H"), field(0, 59, 0, 59), field(0, 23, 0, 23), field(1, 31, 1, 28, "31", "30", "L", "LW", "31W"), field(1, 12, 1, 12, "2", "3"),
			field(0, 6, 0, 6, "*", "*", "SUNL", "MON#5", "SUN#2"),
		}, " "),
		Timezone: pick(rng, "UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"),
		Gap:      pick(rng, "run", "skip"),
	}
	if rng.IntN(3) == 0 {
		sch.Start = asked.Add(time.Duration(rng.Int64N(int64(400 * 24 * time.Hour)))).Truncate(time.Millisecond)
	}
	if rng.IntN(2) == 0 {
		sch.End = asked.Add(time.Duration(rng.Int64N(int64(800 * 24 * time.Hour)))).Truncate(time.Millisecond)
	}
	return sch
}

func BenchmarkCheck(b *testing.B) {
	for name, sch := range map[string]schema.Schedule{
		"every minute": {Cron: "* * * * *"},
		"in a zone":    {Cron: "0 9 * * MON-FRI", Timezone: "Europe/Berlin"},
		"drawn":        {Cron: "H H H H *", Timezone: "Europe/Berlin", Gap: "skip"},
		"leap days":    {Cron: "0 0 29 2 *", Timezone: "Europe/Berlin"},
		"interval":     {Every: schema.Duration(time.Minute), Anchor: asked},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := Check(sch, asked); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
