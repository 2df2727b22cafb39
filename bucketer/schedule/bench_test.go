package schedule_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// benched are usual schedules, and the dearest that are known.
var benched = []struct {
	name     string
	schedule schema.Schedule
}{
	{"interval", every(10 * time.Second)},
	{"seconds", cron("*/10 * * * * *")},
	{"weekdays", schema.Schedule{Cron: "30 9 * * MON-FRI", Timezone: "America/New_York"}},
	{"constraints", schema.Schedule{Cron: "H H(0-7) L-3,15W,LW * FRI#3,MONL", Timezone: "Europe/Berlin"}},
	{"rare", schema.Schedule{Cron: "0 0 ? FEB MON#5", Timezone: "Europe/Berlin", Gap: "skip"}},
}

func BenchmarkNext(b *testing.B) {
	for _, bb := range benched {
		b.Run(bb.name, func(b *testing.B) {
			s, err := schedule.Compile(bb.schedule, 1)
			if err != nil {
				b.Fatal(err)
			}
			from := at("2026-11-21T09:30:00Z")
			b.ReportAllocs()
			for u := from; b.Loop(); {
				var ok bool
				if u, ok = s.Next(u); !ok || u.Year() > 2300 {
					u = from
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, bb := range benched {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schedule.Compile(bb.schedule, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNever is what the search for something that never comes costs, the worst there is.
func BenchmarkNever(b *testing.B) {
	sch := schema.Schedule{Cron: "0 0 30,31 2 *", Timezone: "Europe/Berlin"}
	for b.Loop() {
		if _, err := schedule.Compile(sch, 1); err == nil {
			b.Fatal("it compiles")
		}
	}
}

// BenchmarkCount counts the times of ten minutes, and of all years.
func BenchmarkCount(b *testing.B) {
	s, err := schedule.Compile(schema.Schedule{Cron: "30 1-3 * * *", Timezone: "Europe/Berlin"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	now := at("2026-11-21T02:30:00Z")
	for _, bb := range []struct {
		name     string
		from, to time.Time
	}{{"ten minutes", now.Add(-10 * time.Minute), now}, {"all years", time.Time{}, at("2399-12-31T00:00:00Z")}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Count(bb.from, bb.to, 1<<30) == 0 {
					b.Fatal("none")
				}
			}
		})
	}
}
