package client

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

// Days that --at and --start state are of --timezone; a time that clocks leave out is refused.
func TestDaysAreOfTheTimezone(t *testing.T) {
	api := clitest.StartNode(t)
	made := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--subject", "a", "--at", "2030-01-04 10:00", "--timezone", "Asia/Tokyo", "-o", "json").Stdout)
	if got := made.NextRun.DueAt.UTC().Format(time.RFC3339); got != "2030-01-04T01:00:00Z" {
		t.Errorf("job create --at '2030-01-04 10:00' of Tokyo is due at %s", got)
	}
	args := []string{"job", "change", "--api", api, made.ID.String(), "-o", "json", "--timezone", "Europe/Berlin", "--at"}
	moved := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, append(args, "2030-07-05")...).Stdout)
	if got := moved.NextRun.DueAt.UTC().Format(time.RFC3339); got != "2030-07-04T22:00:00Z" {
		t.Errorf("job change --at 2030-07-05 of Berlin is due at %s", got)
	}
	for text, want := range map[string]string{
		"2030-03-31 02:30": "write 2030-03-31T03:30:00+02:00",
		"2020-07-05 10:00": "is past, it is 2020-07-05T10:00:00+02:00",
	} {
		if r := clitest.Run(t.Context(), "", append(args, text)...); r.Code != 2 || !strings.Contains(r.Stderr, want) {
			t.Errorf("job change --at %q exits %d with %q, want 2 and %q", text, r.Code, r.Stderr, want)
		}
	}
	p := clitest.Decode[httpapi.Preview](t, clitest.Succeed(t, "schedule", "preview", "--api", api, "--cron", "0 0 * * *", "--timezone", "Asia/Tokyo",
		"--start", "2030-01-02", "--jitter", "0s", "--count", "1", "-o", "json").Stdout)
	if len(p.Times) != 1 || p.Times[0].UTC().Format(time.RFC3339) != "2030-01-01T15:00:00Z" {
		t.Errorf("schedule preview --start 2030-01-02 of Tokyo begins at %v", p.Times)
	}
}

// A one-off job is moved; its payload is replaced, and what is not stated stays.
func TestOneOffJobIsMoved(t *testing.T) {
	api := clitest.StartNode(t)
	made := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--subject", "a", "--in", "1h", "--payload", `{"a": 1, "b": 2}`,
		"--label", "team=billing", "--label", "old=yes", "-o", "json").Stdout)
	at := time.Now().Add(3 * time.Hour).UTC().Truncate(time.Second)
	args := []string{"job", "change", "--api", api, made.ID.String(), "--at", at.Format(time.RFC3339), "--payload", `{"b": 2, "c": 3}`, "--label", "shift=late", "--remove-label", "old", "-o", "json"}
	moved := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, args...).Stdout)
	if moved.ID != made.ID || !moved.NextRun.DueAt.Equal(at) {
		t.Errorf("job change --at answers job %s due %v, want %s due %v", moved.ID, moved.NextRun.DueAt, made.ID, at)
	}
	if got, want := string(compact(t, moved.Payload)), `{"b":2,"c":3}`; got != want {
		t.Errorf("the payload is %s, want %s", got, want)
	}
	if diff := cmp.Diff(map[string]string{"team": "billing", "shift": "late"}, moved.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if r := clitest.Succeed(t, args...); !strings.Contains(r.Stderr, "nothing was changed") {
		t.Errorf("the same change again says %q, want that nothing was changed", r.Stderr)
	}
	moved = clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "change", "--api", api, made.ID.String(), "--in", "2h", "--priority", "high", "-o", "json").Stdout)
	if until := time.Until(moved.NextRun.DueAt.Time); until > 2*time.Hour || until < time.Hour || moved.Priority != schema.High {
		t.Errorf("job change --in 2h answers due in %v and priority %s, want at most 2h and high", until, moved.Priority)
	}
	r := clitest.Run(t.Context(), "", "job", "change", "--api", api, made.ID.String(), "--cron", "@daily")
	if r.Code != 1 || !strings.Contains(r.Stderr, "create another job") {
		t.Errorf("job change --cron of a one-off job exits %d with %q, want 1 and why", r.Code, r.Stderr)
	}
}

// The schedule of a recurring job changes, and its calendar, jitter and labels stay.
func TestRecurringJobIsChanged(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Succeed(t, "calendar", "set", "holidays", "--api", api, "--date", "2030-12-25")
	clitest.Succeed(t, "job", "create", "--api", api, "--subject", "a", "--name", "night", "--cron", "0 2 * * *", "--timezone", "Europe/Berlin",
		"--calendar", "holidays", "--on-date", "next_day", "--jitter", "0s", "--label", "team=billing", "--max-runs", "9")
	change := func(flags ...string) httpapi.Job {
		t.Helper()
		return clitest.Decode[httpapi.Job](t, clitest.Succeed(t, append([]string{"job", "change", "--api", api, "night", "-o", "json"}, flags...)...).Stdout)
	}
	job := change("--cron", "30 3 * * *", "--payload", `{"n": 1}`)
	if s := job.Schedule; s.Cron != "30 3 * * *" || s.Timezone != "Europe/Berlin" || s.Calendar == nil || s.Calendar.Name != "holidays" || s.Calendar.On != "next_day" {
		t.Errorf("after job change --cron the schedule is %+v, want the new expression with zone and calendar", s)
	}
	if *job.Jitter != 0 || job.Labels["team"] != "billing" || job.MaxRuns != 9 || job.Generation < 2 {
		t.Errorf("job change --cron answers %+v, want jitter, labels and max_runs as they were", job)
	}
	job = change("--cron", "0 9 * * *", "--cron", "0 10 * * *", "--max-runs", "0", "--calendar=")
	if len(job.Schedules) != 2 || job.Schedules[1].Cron != "0 10 * * *" || job.Schedules[1].Timezone != "Europe/Berlin" || job.Schedules[0].Calendar != nil || job.MaxRuns != 0 {
		t.Errorf("job change with two --cron answers %+v, want both in Berlin, and no calendar or max_runs", job)
	}
	job = change("--timezone", "Asia/Tokyo", "--exclude", "2030-01-01")
	if len(job.Schedules) != 2 || job.Schedules[0].Timezone != "Asia/Tokyo" || job.Schedules[1].Timezone != "Asia/Tokyo" || len(job.Schedules[1].Exclude) != 1 {
		t.Errorf("job change --timezone of a list answers %+v, want Tokyo in each", job.Schedules)
	}
	job = change("--every", "15m", "--exclude=", "--misfire", "skip", "--concurrency", "2")
	if len(job.Schedules) != 0 || job.Schedule.Every.Std() != 15*time.Minute || job.Schedule.Cron != "" || job.Misfire.Policy != "skip" || job.Concurrency.Limit != 2 {
		t.Errorf("job change --every answers %+v, want every 15m alone, misfire skip and one limit", job)
	}
	if job = change("--cron", "0 4 * * *", "--concurrency", "0"); job.Schedule.Cron != "0 4 * * *" || job.Schedule.Every != 0 || job.Concurrency != nil {
		t.Errorf("job change --cron answers %+v, want cron alone and no limit", job)
	}
}

// A command that is not there is named, with what comes near it, also if it has flags.
func TestUnknownCommandIsNamed(t *testing.T) {
	for args, want := range map[string]string{
		"job reschedule 1 --at 2030-01-01T00:00:00Z": `unknown command "reschedule" for "carillon job": did you mean change?`,
		"job reschedule":    "did you mean change?",
		"job chagne a":      "did you mean change?",
		"secret get x":      `unknown command "get" for "carillon secret"`,
		"job --bogus":       "unknown flag: --bogus",
		"job get a --bogus": "unknown flag: --bogus",
	} {
		t.Run(args, func(t *testing.T) {
			if r := clitest.Run(t.Context(), "", strings.Fields(args)...); r.Code != 2 || !strings.Contains(r.Stderr, want) {
				t.Errorf("carillon %s exits %d with %q, want 2 and %q", args, r.Code, r.Stderr, want)
			}
		})
	}
}

func TestChangesThatMakeNoSense(t *testing.T) {
	for name, args := range map[string]string{
		"nothing":            "job change a",
		"two times":          "job change a --at 2030-01-01T00:00:00Z --in 5s",
		"time and schedule":  "job change a --in 5s --cron @daily",
		"two schedules":      "job change a --every 5s --cron @daily",
		"negative":           "job change a --in -5s",
		"no time":            "job change a --at soon",
		"no attempts":        "job change a --max-attempts 0",
		"no wait":            "job change a --retry-initial 0s",
		"no JSON":            "job change a --payload {",
		"a label of no name": "job change a --label x",
	} {
		t.Run(name, func(t *testing.T) {
			if r := clitest.Run(t.Context(), "", strings.Fields(args)...); r.Code != 2 || r.Stderr == "" {
				t.Errorf("carillon %s exits %d with %q, want 2 and the reason", args, r.Code, r.Stderr)
			}
		})
	}
}

// What replacement returns makes one document of the other, and says finds that it does.
func TestReplacementPatches(t *testing.T) {
	object := func(v ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(v); i += 2 {
			m[v[i].(string)] = v[i+1]
		}
		return m
	}
	for name, row := range map[string]struct {
		was, now, want any
		none           bool
	}{
		"a text":       {was: object("a", "1"), now: "x", want: "x"},
		"the same":     {was: object("a", object("b", "1")), now: object("a", object("b", "1")), want: object()},
		"one goes":     {was: object("a", "1", "b", "2"), now: object("b", "3"), want: object("a", nil, "b", "3")},
		"inner":        {was: object("a", object("b", "1", "c", "2")), now: object("a", object("b", "1")), want: object("a", object("c", nil))},
		"of no object": {was: "x", now: object("a", "1"), want: object("a", "1")},
		"null":         {was: object(), now: object("a", nil), none: true},
		"null stays":   {was: object("a", nil), now: object("a", nil, "b", "1"), want: object("b", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := replacement(row.was, row.now)
			if ok == row.none || ok && !cmp.Equal(got, row.want) {
				t.Errorf("replacement = %v, %t; want %v, %t", got, ok, row.want, !row.none)
			}
			if ok && !says(row.now, got) {
				t.Errorf("%v does not say %v", row.now, got)
			}
			if ok && says(row.was, got) != cmp.Equal(row.was, row.now) {
				t.Errorf("says(%v, %v) = %t", row.was, got, !cmp.Equal(row.was, row.now))
			}
		})
	}
}
