package client

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestJobBackfill(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Succeed(t, "job", "create", "--api", api, "--subject", "nobody", "--timeout", "1s", "--max-attempts", "1", "--name", "poll", "--every", "1m")
	const stretch = "job backfill poll --from 2026-11-20T00:00:00Z --to 2026-11-20T00:10:00Z"
	done := clitest.Run(t.Context(), "", append(strings.Fields(stretch), "--api", api)...)
	// No worker listens on the subject, so all runs fail, and so does the command.
	if done.Code != 1 || !strings.Contains(done.Stderr, ": 10 runs") || !strings.Contains(done.Stderr, "of 10 asked for") || !strings.Contains(done.Stderr, "failed for 10 of 10") {
		t.Errorf("carillon %s exits %d and says\n%s\nwant 10 runs that failed", stretch, done.Code, done.Stderr)
	}
	for _, want := range []string{"backfill", "poll", "done", "2026-11-20"} {
		if !strings.Contains(done.Stdout, want) {
			t.Errorf("carillon %s prints no %q:\n%s", stretch, want, done.Stdout)
		}
	}
	runs := map[string]bool{}
	for line := range strings.Lines(clitest.Succeed(t, "job", "runs", "poll", "--api", api, "-o", "json").Stdout) {
		if r := clitest.Decode[httpapi.Run](t, line); r.Trigger == "backfill" && r.State == "failed" && r.Priority == "low" {
			runs[r.NominalAt.Format("15:04")] = true
		}
	}
	// one each minute, at the second of the job's creation
	if len(runs) != 10 || !runs["00:00"] || !runs["00:09"] {
		t.Errorf("history has the runs %v, want ten of the stretch", runs)
	}

	// With --missing only what has no run is run.
	begins := time.Now().Add(-time.Hour).UTC()
	for _, row := range []struct {
		minutes int
		missing string
		want    string
		dry     int64
	}{
		{5, "--missing=false", ": 5 runs", 5}, {8, "--missing", ": 3 runs", 3}, {8, "--missing", "body.missing: leaves nothing", 0},
	} {
		to := begins.Add(time.Duration(row.minutes) * time.Minute)
		dry := clitest.Decode[httpapi.BackfillPreview](t, clitest.Succeed(t, "job", "backfill", "poll", "--api", api, "--from", begins.Format(time.RFC3339Nano), "--to", to.Format(time.RFC3339Nano), row.missing, "--dry-run", "-o", "json").Stdout)
		if dry.Times != int64(row.minutes) || dry.Matched != row.dry {
			t.Errorf("job backfill %s --dry-run to %v says %+v, want %d of %d", row.missing, to, dry, row.dry, row.minutes)
		}
		more := clitest.Run(t.Context(), "", "job", "backfill", "poll", "--api", api, "--from", begins.Format(time.RFC3339Nano), "--to", to.Format(time.RFC3339Nano), row.missing)
		if more.Code != 1 || !strings.Contains(more.Stderr, row.want) {
			t.Errorf("job backfill %s to %v exits %d with\n%s\nwant %q", row.missing, to, more.Code, more.Stderr, row.want)
		}
	}

	args := append(strings.Fields("job backfill poll --from -240h --max-concurrent 1 --wait=false -o json"), "--api", api)
	begun := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, args...).Stdout)
	if begun.State != "running" || begun.Matched < 240*60-1 || begun.Matched > 240*60+1 {
		t.Errorf("backfill of ten days answers %+v, want it under way", begun)
	}
	if shown := clitest.Succeed(t, "operation", "cancel", "--api", api, begun.ID.String()).Stdout; !strings.Contains(shown, "cancelled") {
		t.Errorf("operation cancel shows\n%s", shown)
	}
	for _, args := range []string{"job backfill", "job backfill poll", "job backfill poll --from soon", "job backfill poll --from -1h --to x"} {
		if r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.Code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
	if r := clitest.Run(t.Context(), "", append(strings.Fields("job backfill poll --from -100000h"), "--api", api)...); r.Code != 1 || !strings.Contains(r.Stderr, "at most 100000") {
		t.Errorf("a stretch that is too long exits %d with %q, want the bound", r.Code, r.Stderr)
	}
}

// --dry-run says how many runs there would be, and starts nothing.
func TestJobBackfillDryRun(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Succeed(t, "job", "create", "--api", api, "--subject", "nobody", "--name", "poll", "--cron", "* * * * *")
	for _, row := range []struct{ from, to, first, last string }{
		{"2026-11-20T00:00:00Z", "2026-11-20T04:10:00Z", "2026-11-20T00:00:00.000Z", "2026-11-20T04:09:00.000Z"},
		{"2026-11-20T00:00:00Z", "2026-11-20T01:40:00Z", "2026-11-20T00:00:00.000Z", "2026-11-20T01:39:00.000Z"},
	} {
		shown := clitest.Succeed(t, "job", "backfill", "poll", "--api", api, "--from", row.from, "--to", row.to, "--dry-run").Stdout
		n := map[string]string{"2026-11-20T04:10:00Z": "250", "2026-11-20T01:40:00Z": "100"}[row.to]
		for _, want := range []string{n, row.first, row.last} {
			if !strings.Contains(shown, want) {
				t.Errorf("job backfill --dry-run to %s shows no %q:\n%s", row.to, want, shown)
			}
		}
	}
	if shown := clitest.Succeed(t, "operation", "list", "--api", api).Stdout; strings.Contains(shown, "poll") {
		t.Errorf("job backfill --dry-run began an operation:\n%s", shown)
	}
	clitest.Succeed(t, "job", "create", "--api", api, "--subject", "nobody", "--name", "asked")
	if r := clitest.Run(t.Context(), "", "job", "backfill", "asked", "--api", api, "--from", "-1h", "--dry-run"); r.Code != 1 || !strings.Contains(r.Stderr, "without schedule") {
		t.Errorf("job backfill --dry-run of a job without a schedule exits %d with %q, want 1 and why", r.Code, r.Stderr)
	}
}

// NOMINAL is shown where it is not the due time, and a job that was cancelled has no NEXT.
func TestNominalAndNextOfTables(t *testing.T) {
	at := func(minute int) httpapi.Time {
		return httpapi.Time{Time: time.Date(2030, 1, 1, 0, minute, 0, 0, time.UTC)}
	}
	if row := jobRunRow(&httpapi.Run{NominalAt: at(1), DueAt: at(1)}); row[2] != "" || len(row) != len(jobRunHead) {
		t.Errorf("the row of a run that is due at its time is %q, want no NOMINAL", row)
	}
	if row := jobRunRow(&httpapi.Run{NominalAt: at(1), DueAt: at(5)}); row[2] != "2030-01-01T00:01:00.000Z" || row[3] != "2030-01-01T00:05:00.000Z" {
		t.Errorf("the row of a backfilled run is %q, want both times", row)
	}
	job := httpapi.Job{State: "active", NextRun: &httpapi.NextRun{DueAt: at(5)}}
	if row := jobRow(&job); row[4] != "2030-01-01T00:05:00.000Z" {
		t.Errorf("NEXT of an active job is %q", row[4])
	}
	job.State = "cancelled"
	if row := jobRow(&job); row[4] != "" {
		t.Errorf("NEXT of a cancelled job is %q, want none", row[4])
	}
}
