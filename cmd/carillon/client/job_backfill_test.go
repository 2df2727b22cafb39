package client

import (
	"strings"
	"testing"

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
