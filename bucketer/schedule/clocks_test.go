package schedule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

func TestNextWhenClocksChange(t *testing.T) {
	t.Parallel()
	type times = []string
	for name, tt := range map[string]struct {
		zone, cron, gap, overlap string
		from, until              string
		want                     times
	}{
		"Berlin, spring: moved to the gap's end": {
			zone: "Europe/Berlin", cron: "30 2 * * *", from: "2026-03-28T00:00:00Z", until: "2026-03-31T00:00:00Z",
			want: times{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		"Berlin, spring: skipped": {
			zone: "Europe/Berlin", cron: "30 2 * * *", gap: "skip", from: "2026-03-28T00:00:00Z", until: "2026-03-31T00:00:00Z",
			want: times{"2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"},
		},
		"Berlin, spring: two become one": {
			zone: "Europe/Berlin", cron: "0,30 2 * * *", from: "2026-03-29T00:00:00Z", until: "2026-03-30T00:15:00Z",
			want: times{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		},
		"Berlin, spring: falls on what is due anyway": {
			zone: "Europe/Berlin", cron: "0 2,3 * * *", from: "2026-03-29T00:00:00Z", until: "2026-03-30T00:15:00Z",
			want: times{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		},
		"Berlin, spring: the first left out": {
			zone: "Europe/Berlin", cron: "0 2 * * *", from: "2026-03-29T00:00:00Z", until: "2026-03-30T00:15:00Z",
			want: times{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		},
		"Berlin, spring: the gap's end itself, skipping": {
			zone: "Europe/Berlin", cron: "0 2,3 * * *", gap: "skip", from: "2026-03-29T00:00:00Z", until: "2026-03-29T12:00:00Z",
			want: times{"2026-03-29T01:00:00Z"},
		},
		"Berlin, spring: elapsed, every minute that there is": {
			zone: "Europe/Berlin", cron: "*/30 2 * * *", from: "2026-03-28T12:00:00Z", until: "2026-03-30T01:00:00Z",
			want: times{"2026-03-30T00:00:00Z", "2026-03-30T00:30:00Z"},
		},
		"Berlin, spring: elapsed, every hour": {
			zone: "Europe/Berlin", cron: "0 * * * *", from: "2026-03-28T23:30:00Z", until: "2026-03-29T02:30:00Z",
			want: times{"2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		},
		"Berlin, spring: elapsed, every second hour": {
			zone: "Europe/Berlin", cron: "0 */2 * * *", from: "2026-03-28T22:00:00Z", until: "2026-03-29T05:00:00Z",
			want: times{"2026-03-28T23:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T04:00:00Z"},
		},
		"Berlin, autumn: the first time": {
			zone: "Europe/Berlin", cron: "30 2 * * *", from: "2026-10-24T12:00:00Z", until: "2026-10-26T12:00:00Z",
			want: times{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		"Berlin, autumn: the second time": {
			zone: "Europe/Berlin", cron: "30 2 * * *", overlap: "second", from: "2026-10-24T12:00:00Z", until: "2026-10-26T12:00:00Z",
			want: times{"2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
		},
		"Berlin, autumn: both times, in the order of instants": {
			zone: "Europe/Berlin", cron: "15,45 2 * * *", overlap: "both", from: "2026-10-24T12:00:00Z", until: "2026-10-25T12:00:00Z",
			want: times{"2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z", "2026-10-25T01:15:00Z", "2026-10-25T01:45:00Z"},
		},
		"Berlin, autumn: elapsed, twice": {
			zone: "Europe/Berlin", cron: "*/30 2 * * *", overlap: "first", from: "2026-10-24T12:00:00Z", until: "2026-10-25T12:00:00Z",
			want: times{"2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"},
		},
		"Berlin, autumn: a fixed list of all hours runs each once": {
			zone: "Europe/Berlin", cron: "0 0-23 * * *", from: "2026-10-24T23:30:00Z", until: "2026-10-25T02:30:00Z",
			want: times{"2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},
		},
		"Berlin, autumn: H with a step is a wildcard too": {
			zone: "Europe/Berlin", cron: "0 H/1 * * *", from: "2026-10-24T23:30:00Z", until: "2026-10-25T02:30:00Z",
			want: times{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		},
		"New York, spring": {
			zone: "America/New_York", cron: "30 2 * * *", from: "2026-03-07T12:00:00Z", until: "2026-03-09T12:00:00Z",
			want: times{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"},
		},
		"New York, autumn": {
			zone: "America/New_York", cron: "30 1 * * *", overlap: "both", from: "2026-10-31T12:00:00Z", until: "2026-11-02T12:00:00Z",
			want: times{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"},
		},
		"New York, as its rule will be in 2390": {
			zone: "America/New_York", cron: "30 2 * * *", from: "2390-03-10T12:00:00Z", until: "2390-03-12T12:00:00Z",
			want: times{"2390-03-11T07:00:00Z", "2390-03-12T06:30:00Z"},
		},
		"Lord Howe, spring: a gap of half an hour": {
			zone: "Australia/Lord_Howe", cron: "15 2 * * *", from: "2026-10-02T12:00:00Z", until: "2026-10-04T20:00:00Z",
			want: times{"2026-10-02T15:45:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"},
		},
		"Lord Howe, spring: an hour that does not begin": {
			zone: "Australia/Lord_Howe", cron: "0 * * * *", from: "2026-10-03T14:00:00Z", until: "2026-10-03T17:30:00Z",
			want: times{"2026-10-03T14:30:00Z", "2026-10-03T16:00:00Z", "2026-10-03T17:00:00Z"},
		},
		"Lord Howe, autumn": {
			zone: "Australia/Lord_Howe", cron: "45 1 * * *", overlap: "both", from: "2026-04-04T12:00:00Z", until: "2026-04-05T20:00:00Z",
			want: times{"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-05T15:15:00Z"},
		},
		"Beirut, spring: no midnight": {
			zone: "Asia/Beirut", cron: "0 0 * * *", from: "2026-03-27T12:00:00Z", until: "2026-03-29T23:00:00Z",
			want: times{"2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
		},
		"Beirut, spring: no midnight on the day of the month": {
			zone: "Asia/Beirut", cron: "30 0 29 3 *", from: "2026-01-01T00:00:00Z", until: "2027-01-01T00:00:00Z",
			want: times{"2026-03-28T22:00:00Z"},
		},
		"Beirut, autumn: the last hour of the day before, twice": {
			zone: "Asia/Beirut", cron: "30 23 * * *", overlap: "both", from: "2026-10-24T12:00:00Z", until: "2026-10-25T23:00:00Z",
			want: times{"2026-10-24T20:30:00Z", "2026-10-24T21:30:00Z", "2026-10-25T21:30:00Z"},
		},
		"Beirut, autumn: midnight comes once": {
			zone: "Asia/Beirut", cron: "0 0 * * *", overlap: "both", from: "2026-10-24T12:00:00Z", until: "2026-10-25T23:00:00Z",
			want: times{"2026-10-24T22:00:00Z", "2026-10-25T22:00:00Z"},
		},
		"Cairo, spring: no midnight": {
			zone: "Africa/Cairo", cron: "30 0 * * FRI", from: "2026-04-20T00:00:00Z", until: "2026-05-02T00:00:00Z",
			want: times{"2026-04-23T22:00:00Z", "2026-04-30T21:30:00Z"},
		},
		"Cairo, autumn": {
			zone: "Africa/Cairo", cron: "30 23 * * THU", overlap: "second", from: "2026-10-26T00:00:00Z", until: "2026-11-07T00:00:00Z",
			want: times{"2026-10-29T21:30:00Z", "2026-11-05T21:30:00Z"},
		},
		"Apia: the day that was not": {
			zone: "Pacific/Apia", cron: "0 9 * * *", from: "2011-12-29T12:00:00Z", until: "2011-12-31T23:00:00Z",
			want: times{"2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"},
		},
		"Apia: the day that was not, skipped": {
			zone: "Pacific/Apia", cron: "0 9 30 12 *", gap: "skip", from: "2010-01-01T00:00:00Z", until: "2013-01-01T00:00:00Z",
			want: times{"2010-12-30T19:00:00Z", "2012-12-29T19:00:00Z"},
		},
		"Troll, spring: a gap of two hours": {
			zone: "Antarctica/Troll", cron: "30 1,2 * * *", from: "2026-03-28T12:00:00Z", until: "2026-03-30T12:00:00Z",
			want: times{"2026-03-29T01:00:00Z", "2026-03-29T23:30:00Z", "2026-03-30T00:30:00Z"},
		},
		"Troll, autumn: both": {
			zone: "Antarctica/Troll", cron: "30 1,2 * * *", overlap: "both", from: "2026-10-24T12:00:00Z", until: "2026-10-25T12:00:00Z",
			want: times{"2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"},
		},
		"Troll, autumn: second": {
			zone: "Antarctica/Troll", cron: "30 1,2 * * *", overlap: "second", from: "2026-10-24T12:00:00Z", until: "2026-10-25T12:00:00Z",
			want: times{"2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"},
		},
		"Kolkata: an offset with half an hour": {
			zone: "Asia/Kolkata", cron: "0 9 * * *", from: "2026-11-21T00:00:00Z", until: "2026-11-22T12:00:00Z",
			want: times{"2026-11-21T03:30:00Z", "2026-11-22T03:30:00Z"},
		},
		"Kathmandu: every hour at its own minute": {
			zone: "Asia/Kathmandu", cron: "0 * * * *", from: "2026-11-21T00:00:00Z", until: "2026-11-21T02:00:00Z",
			want: times{"2026-11-21T00:15:00Z", "2026-11-21T01:15:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sch := schema.Schedule{Cron: tt.cron, Timezone: tt.zone, Gap: tt.gap, OverlapHour: tt.overlap}
			s, err := schedule.Compile(sch, 0)
			if err != nil {
				t.Fatalf("Compile(%+v): %v", sch, err)
			}
			var got times
			for u := range s.From(at(tt.from)) {
				if u.After(at(tt.until)) {
					break
				}
				got = append(got, u.Format(time.RFC3339Nano))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("times of %+v in (%s, %s] (-want +got):\n%s", sch, tt.from, tt.until, d)
			}
			if n := s.Count(at(tt.from), at(tt.until), 1000); n != len(tt.want) {
				t.Errorf("Count(%s, %s) of %+v = %d, want %d", tt.from, tt.until, sch, n, len(tt.want))
			}
			if last, ok := s.Last(at(tt.from), at(tt.until)); !ok || last.Format(time.RFC3339Nano) != tt.want[len(tt.want)-1] {
				t.Errorf("Last(%s, %s) of %+v = %v, %v, want %s", tt.from, tt.until, sch, last, ok, tt.want[len(tt.want)-1])
			}
		})
	}
}
