package schedule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		schedule schema.Schedule
		want     string
	}{
		{cron("* * * * *"), "every minute, UTC"},
		{cron("* * * * * *"), "every second, UTC"},
		{cron("*/20 * * * * *"), "every 20 seconds, UTC"},
		{cron("*/15 * * * *"), "every 15 minutes, UTC"},
		{cron("*/25 * * * *"), "at minute 0, 25 and 50 of every hour, UTC"},
		{cron("*/15 9-17 * * MON-FRI"), "every 15 minutes of hour 9 to 17 on Monday to Friday, UTC"},
		{cron("0 * * * *"), "every hour, UTC"},
		{cron("0 */6 * * *"), "at 00:00, 06:00, 12:00 and 18:00 every day, UTC"},
		{cron("0 */2 * * *"), "every 2 hours, UTC"},
		{cron("5,35 * * * *"), "at minute 5 and 35 of every hour, UTC"},
		{cron("30 * * * * *"), "at second 30 of every minute, UTC"},
		{cron("0,30 15 * * * *"), "every 30 seconds of minute 15 of every hour, UTC"},
		{cron("1,2,9 0 */3 * * *"), "at second 1, 2 and 9 of minute 0 of hour 0, 3, 6 … 21, UTC"},
		{cron("0 9 * * *"), "at 09:00 every day, UTC"},
		{cron("15 0 9 * * *"), "at 09:00:15 every day, UTC"},
		{schema.Schedule{Cron: "0 9 * * MON-FRI", Timezone: "Europe/Berlin"}, "at 09:00 on Monday to Friday, Europe/Berlin time"},
		{cron("0 9,17 * * 0,6"), "at 09:00 and 17:00 on Saturday and Sunday, UTC"},
		{cron("0 9 1,15 * *"), "at 09:00 on day 1 and 15 of the month, UTC"},
		{cron("0 9 1 * MON"), "at 09:00 on day 1 of the month, and on Monday, UTC"},
		{cron("0 9 */2 * MON"), "at 09:00 on day 1, 3, 5 … 31 of the month, if that is Monday, UTC"},
		{cron("0 9 1-31 * MON"), "at 09:00 every day, UTC"},
		{cron("0 9 L * ?"), "at 09:00 on the last day of the month, UTC"},
		{cron("0 9 15,L-3,LW,20W * ?"), "at 09:00 on day 15 of the month, the 3 days before the last of the month, the last working day (Monday to Friday) of the month and the working day (Monday to Friday) nearest to day 20 of the month, UTC"},
		{cron("0 9 L-1 * ?"), "at 09:00 on the day before the last of the month, UTC"},
		{cron("0 9 ? * FRI#3,SUNL"), "at 09:00 on the third Friday of the month and the last Sunday of the month, UTC"},
		{cron("0 0 1 1,3-5 *"), "at 00:00 on day 1 of the month in January and March to May, UTC"},
		{cron("@yearly"), "at 00:00 on day 1 of the month in January, UTC"},
		{schema.Schedule{Cron: "@daily", Start: at("2026-12-01T00:00:00Z"), End: at("2027-01-01T00:00:00.5+01:00")}, "at 00:00 every day, UTC, from 2026-12-01T00:00:00Z, before 2026-12-31T23:00:00.5Z"},
		{schema.Schedule{Every: schema.Duration(90 * time.Minute), Anchor: at("2026-11-21T09:30:00Z")}, "every 90 minutes, counted from 2026-11-21T09:30:00Z"},
		{every(time.Hour), "every hour, counted from 1970-01-01T00:00:00Z"},
		{every(48 * time.Hour), "every 2 days, counted from 1970-01-01T00:00:00Z"},
		{every(1500 * time.Millisecond), "every 1500 milliseconds, counted from 1970-01-01T00:00:00Z"},
	} {
		s, err := schedule.Compile(tt.schedule, 0)
		if err != nil {
			t.Errorf("Compile(%+v): %v", tt.schedule, err)
			continue
		}
		if got := s.Describe(); got != tt.want {
			t.Errorf("Describe of %+v\n got %q\nwant %q", tt.schedule, got, tt.want)
		}
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	berlin := func(cron, gap, overlap string) schema.Schedule {
		return schema.Schedule{Cron: cron, Timezone: "Europe/Berlin", Gap: gap, OverlapHour: overlap}
	}
	for name, tt := range map[string]struct {
		schedule schema.Schedule
		want     []string
	}{
		"moved":                   {berlin("30 2 * * *", "", ""), []string{"the 02:30 run of 2026-03-29 moves to 03:00"}},
		"several moved":           {berlin("0,30 2 * * *", "", ""), []string{"the 2 runs from 02:00 to 02:30 of 2026-03-29 become one at 03:00"}},
		"moved to another":        {berlin("0 2,3 * * *", "", ""), []string{"the 02:00 run of 2026-03-29 falls together with that of 03:00"}},
		"skipped":                 {berlin("30 2 * * *", "skip", ""), []string{"the 02:30 run of 2026-03-29 is skipped: the clock goes from 02:00 to 03:00"}},
		"skipped and doubled":     {berlin("30 2 * * *", "skip", "both"), []string{"the 02:30 run of 2026-03-29 is skipped: the clock goes from 02:00 to 03:00", "the 02:30 run of 2026-10-25 runs twice"}},
		"several doubled":         {berlin("0,30 2 25 10 *", "", "both"), []string{"the 2 runs from 02:00 to 02:30 of 2026-10-25 run twice"}},
		"not touched":             {berlin("30 4 * * *", "", "both"), nil},
		"another day of the week": {berlin("30 2 * * MON", "", "both"), nil},
		"elapsed, one hour":       {berlin("*/15 2 * * *", "", ""), []string{"the 4 runs from 02:00 to 02:45 of 2026-03-29 do not happen: the clock goes from 02:00 to 03:00", "the 4 runs from 02:00 to 02:45 of 2026-10-25 run twice"}},
		"elapsed, second hours":   {berlin("0 */2 * * *", "", ""), []string{"the 02:00 run of 2026-03-29 does not happen: the clock goes from 02:00 to 03:00", "the 02:00 run of 2026-10-25 runs twice"}},
		"elapsed, at its pace":    {berlin("*/15 * * * *", "", ""), nil},
		"no zone":                 {cron("30 2 * * *"), nil},
		"an interval":             {every(time.Hour), nil},
		"pace of an hour, half an hour's change": {
			schema.Schedule{Cron: "0 * * * *", Timezone: "Australia/Lord_Howe"},
			[]string{"the 02:00 run of 2026-10-04 does not happen: the clock goes from 02:00 to 02:30"},
		},
		"pace of a minute, half an hour's change": {schema.Schedule{Cron: "* * * * *", Timezone: "Australia/Lord_Howe"}, nil},
		"after the end":    {schema.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", End: at("2026-03-29T01:00:00Z")}, nil},
		"before the start": {schema.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin", Start: at("2026-03-29T01:00:00.001Z")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := schedule.Compile(tt.schedule, 0)
			if err != nil {
				t.Fatalf("Compile(%+v): %v", tt.schedule, err)
			}
			got := s.Notes(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"))
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("Notes of %+v in 2026 (-want +got):\n%s", tt.schedule, d)
			}
		})
	}
}

func TestNotesAreBoundedAndNameTheDayThatWasNot(t *testing.T) {
	t.Parallel()
	s, err := schedule.Compile(schema.Schedule{Cron: "0 9 * * *", Timezone: "Pacific/Apia"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the 09:00 run of 2011-12-30 moves to 00:00 of 2011-12-31"}
	if d := cmp.Diff(want, s.Notes(at("2011-12-01T00:00:00Z"), at("2012-02-01T00:00:00Z"))); d != "" {
		t.Errorf("Notes for Apia in December 2011 (-want +got):\n%s", d)
	}
	s, err = schedule.Compile(schema.Schedule{Cron: "* 2 * * *", Timezone: "Europe/Berlin"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Notes(at("1970-01-01T00:00:00Z"), at("2399-01-01T00:00:00Z"))); n != schedule.MaxNotes {
		t.Errorf("Notes for Berlin in 430 years are %d, want %d", n, schedule.MaxNotes)
	}
}
