package httpapi

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScheduleIsPreviewed(t *testing.T) {
	hs := serve(t, newStub())
	times := func(layout string, p Preview) (got []string) {
		for _, at := range p.Times {
			got = append(got, at.UTC().Format(layout))
		}
		return got
	}
	for name, row := range map[string]struct {
		body, layout string
		times        []string
		notes        []string // parts of them, in order
	}{
		"an interval from now": {`{"schedule":{"every":"15m"},"count":2,"jitter":"0s"}`, "15:04", []string{"09:45", "10:00"}, nil},
		"strictly after from":  {`{"schedule":{"cron":"0 * * * *"},"from":"2026-11-21T12:00:00+01:00","count":2,"jitter":"0s"}`, "15:04", []string{"12:00", "13:00"}, nil},
		"default jitter":       {`{"schedule":{"cron":"0 * * * *"},"count":1}`, "15:04", []string{"10:00"}, []string{"up to 10s"}},
		"a jitter":             {`{"schedule":{"cron":"0 * * * *"},"count":1,"jitter":"90s"}`, "15:04", []string{"10:00"}, []string{"up to 1m30s"}},
		"H":                    {`{"schedule":{"cron":"0 0 H * THU"},"count":1,"jitter":"0s"}`, "15", []string{"00"}, []string{"drawn from the job's id"}},
		"no H":                 {`{"schedule":{"cron":"0 0 * * THU"},"count":1,"jitter":"0s"}`, "15", []string{"00"}, nil},
		"a gap": {
			`{"schedule":{"cron":"30 2 * * *","timezone":"Europe/Berlin"},"from":"2027-03-27T00:00:00Z","count":2,"jitter":"0s"}`,
			"2006-01-02T15:04",
			[]string{"2027-03-27T01:30", "2027-03-28T01:00"},
			[]string{"the 02:30 run of 2027-03-28 moves to 03:00"},
		},
		"several": {
			`{"schedules":[{"cron":"30 2 * * *","timezone":"Europe/Berlin"},{"every":"12h","anchor":"2026-11-21T01:00:00Z"}],"from":"2027-03-27T00:00:00Z","count":4,"jitter":"0s"}`,
			"2006-01-02T15:04",
			[]string{"2027-03-27T01:00", "2027-03-27T01:30", "2027-03-27T13:00", "2027-03-28T01:00"},
			[]string{"the 02:30 run of 2027-03-28 moves to 03:00 (at 02:30 every day, Europe/Berlin time)"},
		},
		"without a date":      {`{"schedule":{"cron":"0 9 * * *","exclude":["2026-11-22"]},"count":2,"jitter":"0s"}`, time.DateOnly, []string{"2026-11-23", "2026-11-24"}, nil},
		"H in one of several": {`{"schedules":[{"cron":"0 0 H * *"},{"cron":"0 0 * * *"}],"count":1,"jitter":"0s"}`, "15", []string{"00"}, []string{"drawn from the job's id"}},
		"an end":              {`{"schedule":{"every":"1m"},"from":"2026-11-21T10:00:00Z","end":"2026-11-21T10:02:00Z","jitter":"0s"}`, "15:04", []string{"10:01"}, nil},
		"over":                {`{"schedule":{"every":"1m"},"from":"2026-11-21T10:00:00Z","end":"2026-11-21T09:00:00Z","jitter":"0s"}`, "15:04", nil, []string{"there is no time after 2026-11-21T10:00:00.000Z"}},
		"sparse":              {`{"schedule":{"cron":"0 0 29 2 *"},"count":3,"jitter":"0s"}`, time.DateOnly, []string{"2028-02-29", "2032-02-29", "2036-02-29"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got Preview
			doJSON(t, hs, call{method: "POST", path: "/v1/schedules/preview", body: row.body}, 200, &got)
			if got := times(row.layout, got); !slices.Equal(got, row.times) {
				t.Errorf("preview of %s: times %q, want %q", row.body, got, row.times)
			}
			if got.Description == "" || got.Zones == "" {
				t.Errorf("preview of %s: description %q, zones %q", row.body, got.Description, got.Zones)
			}
			ok := len(got.Notes) == len(row.notes)
			for i := 0; ok && i < len(row.notes); i++ {
				ok = strings.Contains(got.Notes[i], row.notes[i])
			}
			if !ok {
				t.Errorf("preview of %s: notes %q, want %q", row.body, got.Notes, row.notes)
			}
		})
	}
	var most Preview
	doJSON(t, hs, call{method: "POST", path: "/v1/schedules/preview", body: `{"schedule":{"every":"1s"},"count":100}`}, 200, &most)
	if len(most.Times) != 100 {
		t.Errorf("preview of 100: %d times", len(most.Times))
	}
}

func TestPreviewsThatAreRefused(t *testing.T) {
	hs := serve(t, newStub())
	for name, row := range map[string]struct{ body, location string }{
		"nothing":             {`{}`, "body.schedule"},
		"no schedule":         {`{"schedule":{}}`, "body.schedule"},
		"an instant":          {`{"schedule":{"at":"2026-11-21T10:00:00Z"}}`, "body.schedule"},
		"both":                {`{"schedule":{"cron":"* * * * *","every":"1m"}}`, "body.schedule"},
		"a bad expression":    {`{"schedule":{"cron":"60 * * * *"}}`, "body.schedule.cron"},
		"never":               {`{"schedule":{"cron":"0 0 30 2 *"}}`, "body.schedule.cron"},
		"too many":            {`{"schedule":{"every":"1m"},"count":101}`, "body.count"},
		"none":                {`{"schedule":{"every":"1m"},"count":0}`, "body.count"},
		"one of several":      {`{"schedules":[{"every":"1m"},{"cron":"60 * * * *"}]}`, "body.schedules[1].cron"},
		"a list and one":      {`{"schedules":[{"every":"1m"}],"schedule":{"every":"1m"}}`, "body"},
		"a date":              {`{"schedule":{"every":"1m","exclude":["soon"]}}`, "body.schedule.exclude[0]"},
		"an odd time":         {`{"schedule":{"every":"1m"},"from":"noon"}`, "body.from"},
		"a jitter of a week":  {`{"schedule":{"every":"1m"},"jitter":"168h"}`, "body.jitter"},
		"a field of jobs":     {`{"schedule":{"every":"1m"},"task":"a"}`, "body.task"},
		"an end before start": {`{"schedule":{"every":"1m"},"start":"2026-11-21T10:00:00Z","end":"2026-11-21T09:00:00Z"}`, "body.end"},
	} {
		t.Run(name, func(t *testing.T) {
			p := doProblem(t, hs, call{method: "POST", path: "/v1/schedules/preview", body: row.body}, 422)
			if len(p.Errors) != 1 || p.Errors[0].Location != row.location {
				t.Errorf("preview of %s: faults %+v, want one at %s", row.body, p.Errors, row.location)
			}
		})
	}
}
