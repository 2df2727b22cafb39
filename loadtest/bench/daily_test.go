package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/metrics"
)

func TestDailyJobsAreDueAtTheHourOrFarFromIt(t *testing.T) {
	j := jobs{n: 5000, from: noon, seed: 3, source: "s1", url: "http://h:1", target: httpTarget, daily: true, together: 500}
	hours := make(map[int]int)
	for line := range j.n {
		line++
		due := j.due(line)
		if line <= 500 {
			if !due.Equal(noon) {
				t.Fatalf("due(%d) = %s, want %s", line, due, noon)
			}
			continue
		}
		if due.Before(noon.Add(2*time.Hour)) || !due.Before(noon.Add(23*time.Hour)) || due.Nanosecond() != 0 {
			t.Fatalf("due(%d) = %s, want a whole second from two hours after %s on, at most 23", line, due, noon)
		}
		hours[int(due.Sub(noon).Hours())]++
	}
	for hour := 2; hour < 23; hour++ {
		if n := hours[hour]; n < 150 || n > 280 {
			t.Errorf("%d jobs are due in hour %d, want about 214", n, hour)
		}
	}
	for _, line := range []int{1, 501} {
		var text struct {
			HTTP     struct{ URL string }
			Schedule struct{ Cron string }
			Jitter   string
		}
		due := j.due(line).UTC()
		if err := json.Unmarshal(j.appendLine(nil, line), &text); err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		want := fmt.Sprintf("%d %d %d * * *", due.Second(), due.Minute(), due.Hour())
		if text.Schedule.Cron != want || text.Jitter != "0s" || text.HTTP.URL != fmt.Sprintf("http://h:1/s1/%d", line) {
			t.Errorf("line %d = %+v, want cron %q without jitter", line, text, want)
		}
	}
}

func TestTheHerdIsOfTheJobsAtTheHour(t *testing.T) {
	b := &bench{members: members{cfg: Config{Jobs: 1000, OnHour: 0.25}.withDefaults()}}
	src := b.source(b.cfg.hour(1), noon, "http://h:1")
	if src.count() != 250 || !src.end().Equal(noon) || !src.dueOf(249).Equal(noon) {
		t.Errorf("%d runs, due %s, until %s; want 250 at %s", src.count(), src.dueOf(249), src.end(), noon)
	}
	for name, row := range map[string]struct {
		line int
		due  time.Time
		ok   bool
	}{
		"the first": {1, noon, true}, "the last": {250, noon, true}, "of a job that is due later": {251, noon, false},
		"of the next day": {1, noon.Add(24 * time.Hour), false}, "of no job": {0, noon, false},
	} {
		run, ok := src.runOf(&check.Sighting{Ref: check.Ref{Source: src.name(), Line: row.line}, Due: row.due})
		if ok != row.ok || ok && run != row.line-1 {
			t.Errorf("%s: runOf = %d, %t, want %t", name, run, ok, row.ok)
		}
	}
	if n := b.source(Config{Jobs: 3, OnHour: 0.1}.hour(1), noon, "").count(); n != 1 {
		t.Errorf("a tenth of three jobs = %d runs, want one", n)
	}
}

func TestMendFigures(t *testing.T) {
	grew := metrics.Values{
		metricLooked: 6000, metricLookedTime: 12,
		metricStatements + `{result="ok",statement="select_jobs_of"}`:         120,
		metricStatements + `{result="ok",statement="select_entries_by_id"}`:   5880,
		metricStatements + `{result="ok",statement="select_jobs"}`:            9999,
		metricStatements + `{result="error",statement="select_entries_by_x"}`: 9999,
	}
	got := mendOf(grew, time.Minute, 1_000_000)
	if want := (Mend{Jobs: 6000, Span: 60, Page: 100, Pass: 10_000, Reads: 1}); got == nil || *got != want {
		t.Errorf("mendOf = %+v, want %+v", got, want)
	}
	if got := mendOf(metrics.Values{}, time.Minute, 10); got != nil {
		t.Errorf("mendOf nothing = %+v, want nil", got)
	}
	text := (&Result{Protocol: "R", Variant: mendVariant, Jobs: 1_000_000, Mend: got}).String()
	if !strings.Contains(text, "100 ms for 50") || !strings.Contains(text, "2h46m40s for all") {
		t.Errorf("text = %s", text)
	}
	hour := (&Result{Protocol: "R", Variant: hourVariant, N: 100, Jobs: 1000, RunsPerS: 1, Load: &Load{PerS: 9000}}).String()
	if !strings.Contains(hour, "of 1000 recurring jobs") || !strings.Contains(hour, "import 9000 lines/s") {
		t.Errorf("text = %s", hour)
	}
}
