package client

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

// A crontab that is imported again changes what it states, and keeps what was set since.
func TestCrontabAgainKeepsWhatItDoesNotState(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Succeed(t, "calendar", "set", "holidays", "--api", api, "--date", "2030-12-25")
	args := []string{"job", "import-crontab", "-", "--api", api, "--subject", "work.shell", "--form", "user", "-o", "json"}
	input := func(text string, flags ...string) []crontabLine {
		t.Helper()
		r := clitest.Run(t.Context(), text, append(args, flags...)...)
		if r.Code != 0 {
			t.Fatalf("import-crontab exits %d: %s", r.Code, r.Stderr)
		}
		return clitest.Decode[[]crontabLine](t, r.Stdout)
	}
	lines := input("CRON_TZ=Europe/Berlin\nLANG=C\n0 2 * * * backup --all\n5 4 * * * clean\n", "--label", "team=billing")
	if len(lines) != 2 || lines[0].Result != "created" {
		t.Fatalf("import-crontab answers %+v, want two created", lines)
	}
	name := lines[0].Name
	clitest.Succeed(t, "job", "change", "--api", api, name, "--calendar", "holidays", "--on-date", "next_day", "--jitter", "3s", "--label", "own=yes", "--priority", "low")
	lines = input("CRON_TZ=Europe/Berlin\n30 3 * * * backup --all\n5 4 * * * clean\n")
	if lines[0].Result != "applied" || lines[1].Result != "applied" { // the environment is another one
		t.Errorf("import-crontab of other times answers %+v, want both applied", lines)
	}
	get := func() httpapi.Job {
		t.Helper()
		return clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "get", "--api", api, name, "-o", "json").Stdout)
	}
	job := get()
	if s := job.Schedule; s.Cron != "30 3 * * *" || s.Timezone != "Europe/Berlin" || s.Calendar == nil || s.Calendar.Name != "holidays" || s.Calendar.On != "next_day" {
		t.Errorf("the schedule is %+v, want the new time, and the calendar kept", s)
	}
	if job.Jitter.Std().String() != "3s" || job.Priority != "low" {
		t.Errorf("the job has jitter %v and priority %s, want 3s and low kept", job.Jitter.Std(), job.Priority)
	}
	if diff := cmp.Diff(map[string]string{"team": "billing", "own": "yes"}, job.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(crontabPayload{Command: "backup --all"}, clitest.Decode[crontabPayload](t, string(job.Payload))); diff != "" {
		t.Errorf("the payload keeps an environment that the crontab has no more (-want +got):\n%s", diff)
	}
	lines = input("CRON_TZ=Europe/Berlin\n30 3 * * * backup --all\n5 4 * * * clean\n", "--jitter", "0s", "--calendar", "holidays", "--on-date", "skip")
	if lines[0].Result != "applied" {
		t.Errorf("import-crontab with flags answers %+v, want applied", lines)
	}
	if job = get(); *job.Jitter != 0 || job.Schedule.Calendar.On != "skip" || job.Labels["own"] != "yes" {
		t.Errorf("after import-crontab with flags the job is %+v, want what they state", job)
	}
	generation := job.Generation
	if lines = input("CRON_TZ=Europe/Berlin\n30 3 * * * backup --all\n"); lines[0].Result != "unchanged" || get().Generation != generation {
		t.Errorf("import-crontab of the same answers %+v and generation %d, want unchanged and %d", lines, get().Generation, generation)
	}
	clitest.Succeed(t, "job", "cancel", "--api", api, name)
	if lines = input("30 3 * * * backup --all\n"); lines[0].Result != "created" {
		t.Errorf("import-crontab over a cancelled job answers %+v, want another one created", lines)
	}
}

// A dry run says what would have every line refused.
func TestCrontabSaysWhatIsMissing(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Succeed(t, "calendar", "set", "there", "--api", api, "--date", "2030-12-25")
	clitest.Succeed(t, "task", "set", "shell", "--api", api, "--subject", "work.shell")
	for _, row := range []struct{ task, calendar, want string }{
		{"shell", "there", ""},
		{"gone", "there", "There is no task gone: make it with carillon task set before the import.\n"},
		{"shell", "gone", "There is no calendar gone: make it with carillon calendar set before the import.\n"},
	} {
		r := clitest.Run(t.Context(), "CRON_TZ=UTC\n0 2 * * * a\n", "job", "import-crontab", "-", "--api", api, "--task", row.task, "--calendar", row.calendar, "--form", "user", "--dry-run")
		if r.Code != 0 || r.Stderr != row.want {
			t.Errorf("a dry run with task %s and calendar %s exits %d and says %q, want 0 and %q", row.task, row.calendar, r.Code, r.Stderr, row.want)
		}
	}
}

// The flags are of each job, as --dry-run shows.
func TestFlagsOfCrontabAreOfEachJob(t *testing.T) {
	r := clitest.Run(t.Context(), "0 2 * * * a\n0 3 * * * b\n", "job", "import-crontab", "-", "--task", "shell", "--form", "user", "--dry-run", "-o", "json",
		"--calendar", "holidays", "--on-date", "next_day", "--jitter", "0s", "--label", "team=billing")
	for _, want := range []string{`"name": "holidays"`, `"on": "next_day"`, `"jitter": "0s"`, `"team": "billing"`} {
		if got := strings.Count(r.Stdout, want); got != 2 {
			t.Errorf("import-crontab --dry-run states %s in %d jobs, want 2:\n%s%s", want, got, r.Stdout, r.Stderr)
		}
	}
}
