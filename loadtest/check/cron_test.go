package check

import (
	"slices"
	"testing"
	"time"
)

func TestCronNamesItsTimes(t *testing.T) {
	saturday := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	rows := []struct {
		text, zone string
		from       time.Time
		span       time.Duration
		want       []string // as 02T15:04:05 UTC
	}{
		{"*/20 * * * * *", "", saturday, time.Minute, []string{"21T10:00:00", "21T10:00:20", "21T10:00:40"}},
		{"7,50-52/2 * * * * *", "UTC", saturday, time.Minute, []string{"21T10:00:07", "21T10:00:50", "21T10:00:52"}},
		{"45/5 * * * * *", "UTC", saturday.Add(500 * time.Millisecond), time.Minute, []string{"21T10:00:45", "21T10:00:50", "21T10:00:55"}},
		{"*/30 * * * *", "", saturday, time.Hour, []string{"21T10:00:00", "21T10:30:00"}},
		{"0 12 * * 7", "", saturday, 48 * time.Hour, []string{"22T12:00:00"}},
		// either day
		{"0 12 23 * 0", "", saturday, 72 * time.Hour, []string{"22T12:00:00", "23T12:00:00"}},
		// both: a step is a wildcard
		{"0 12 */2 * 6", "", saturday, 24 * time.Hour, []string{"21T12:00:00"}},
		{"0 12 */2 * 0", "", saturday, 72 * time.Hour, nil},
		// 5 h 45 min ahead
		{"0 15 */1 * * *", "Asia/Kathmandu", saturday, time.Hour, []string{"21T10:30:00"}},
		{"0 * * 12 *", "", saturday, 24 * time.Hour, nil},
	}
	for _, row := range rows {
		t.Run(row.text, func(t *testing.T) {
			c, err := parseCron(row.text, row.zone)
			if err != nil {
				t.Fatalf("parseCron: %v", err)
			}
			var got []string
			c.each(ceilMS(row.from), ceilMS(row.from.Add(row.span)), func(ms int64) {
				got = append(got, time.UnixMilli(ms).UTC().Format("02T15:04:05"))
			})
			if !slices.Equal(got, row.want) {
				t.Errorf("%q in %q names %v, want %v", row.text, row.zone, got, row.want)
			}
		})
	}
}

func TestCronThatCannotBeJudgedIsRefused(t *testing.T) {
	for _, row := range [][2]string{
		{"", ""},
		{"* * *", ""},
		{"60 * * * * *", ""},
		{"* * * * MON", ""},
		{"H * * * *", ""},
		{"*/0 * * * *", ""},
		{"5-1 * * * *", ""},
		{"0 0 L * *", ""},
		{"30 2 * * *", "Europe/Berlin"}, // what changes of clocks do to it is for another oracle
		{"* * * * *", "Atlantis/Capital"},
	} {
		if c, err := parseCron(row[0], row[1]); err == nil {
			t.Errorf("parseCron(%q, %q) = %+v, want an error", row[0], row[1], c)
		}
	}
}

func TestIntervalNamesItsTimes(t *testing.T) {
	rows := []struct {
		name     string
		times    times
		from, to int64
		want     []int64
	}{
		{"from the anchor on", times{rules: []rule{{every: 10, anchor: 3}}}, 3, 24, []int64{3, 13, 23}},
		{"between two", times{rules: []rule{{every: 10, anchor: 3}}}, 4, 23, []int64{13}},
		{"before the anchor too", times{rules: []rule{{every: 10, anchor: 103}}}, 60, 90, []int64{63, 73, 83}},
		{"from the start of the schedule", times{rules: []rule{{every: 10, anchor: 3}}, start: 14}, 0, 34, []int64{23, 33}},
		{"up to its end", times{rules: []rule{{every: 10, anchor: 3}}, end: 13}, 0, 34, []int64{3}},
		{"of several, each once", times{rules: []rule{{every: 10}, {every: 15}}}, 0, 46, []int64{0, 10, 15, 20, 30, 40, 45}},
		{"but not on excluded dates", times{rules: []rule{{every: 12 * 3600_000, exclude: []string{"1970-01-02"}, zone: time.UTC}}}, 0, 3 * 24 * 3600_000, []int64{0, 12 * 3600_000, 48 * 3600_000, 60 * 3600_000}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var got []int64
			row.times.each(row.from, row.to, func(ms int64) { got = append(got, ms) })
			if !slices.Equal(got, row.want) {
				t.Errorf("each(%d, %d) = %v, want %v", row.from, row.to, got, row.want)
			}
			if n := row.times.count(row.from, row.to-1); n != len(row.want) {
				t.Errorf("count(%d, %d) = %d, want %d", row.from, row.to-1, n, len(row.want))
			}
			step := int64(1)
			if row.to-row.from > 1_000_000 {
				step = 60_000 // of days, each minute
			}
			for ms := row.from; ms < row.to; ms += step {
				if row.times.names(ms) != slices.Contains(row.want, ms) {
					t.Errorf("names(%d) = %t, and each calls %v", ms, row.times.names(ms), row.want)
				}
			}
		})
	}
}
