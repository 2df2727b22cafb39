package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

func TestRecurringJobRunsAndIsShown(t *testing.T) {
	api := clitest.StartNode(t)
	called := make(chan string, 64)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case called <- r.Header.Get("Carillon-Job-Id"):
		default:
		}
	}))
	defer sink.Close()
	job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL, "--name", "often", "--every", "1s", "--jitter", "0s",
		"--label", "team=billing", "--misfire", "skip", "--misfire-deadline", "1h", "--max-runs", "1000", "--concurrency", "2", "--concurrency-key", "/customer/id", "--on-limit", "skip", "-o", "json").Stdout)
	if job.Name != "often" || job.Schedule.Every.Std() != time.Second || job.Misfire.Policy != "skip" || job.MaxRuns != 1000 || job.Concurrency == nil || job.Concurrency.OnLimit != "skip" || job.Concurrency.Key != "/customer/id" {
		t.Errorf("job create answers %+v, want what the flags said", job)
	}
	for range 2 {
		select {
		case got := <-called:
			if got != job.ID.String() {
				t.Errorf("a call of job %q, want %s", got, job.ID)
			}
		case <-time.After(time.Minute):
			t.Fatal("no call within a minute")
		}
	}
	clitest.Await(t, "two runs in the history", func() bool {
		return strings.Count(clitest.Succeed(t, "job", "runs", "--api", api, "often", "--state", "succeeded", "-o", "json").Stdout, "\n") >= 2
	})
	if shown := clitest.Succeed(t, "job", "list", "--api", api, "--label", "team=billing", "--name-prefix", "oft").Stdout; !strings.Contains(shown, "every 1s") || !strings.Contains(shown, job.ID.String()) {
		t.Errorf("job list shows\n%s", shown)
	}
	if shown := clitest.Succeed(t, "job", "list", "--api", api, "--state", "paused").Stdout; strings.Contains(shown, job.ID.String()) {
		t.Errorf("job list --state paused shows an active job:\n%s", shown)
	}
	next := clitest.Decode[[]httpapi.NextRun](t, clitest.Succeed(t, "job", "upcoming", "--api", api, "often", "--count", "3", "-o", "json").Stdout)
	if len(next) != 3 || next[2].DueAt.Sub(next[0].DueAt.Time) != 2*time.Second {
		t.Errorf("job upcoming --count 3 answers %+v, want three a second apart", next)
	}
	year := time.Now().Year() + 1
	clitest.Succeed(t, "job", "create", "--api", api, "--name", "seldom", "--url", "http://127.0.0.1:1/", "--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--jitter", "0s")
	shown := clitest.Succeed(t, "job", "upcoming", "--api", api, "seldom", "--count", "2", "--from", fmt.Sprintf("%d-12-24T03:00:00+01:00", year)).Stdout
	for _, want := range []string{fmt.Sprintf("%d-12-25T01:00:00.000Z", year), fmt.Sprintf("%d-12-26T01:00:00.000Z", year), fmt.Sprintf("%d-12-25 02:00:00 CET", year)} {
		if !strings.Contains(shown, want) {
			t.Errorf("job upcoming --from shows\n%s\nwant %s", shown, want)
		}
	}
	clitest.Succeed(t, "job", "change", "--api", api, "seldom", "--label", "team=a", "--concurrency", "1", "--on-limit", "skip", "--misfire-deadline", "2m", "--max-attempts", "6",
		"--retry-initial", "10s", "--retry-max", "5m", "--retry-jitter", "none")
	shown = clitest.Succeed(t, "job", "get", "--api", api, "seldom").Stdout
	for _, want := range []string{"labels", "team=a", "1 at once, then skip", "at most 2m late", "6, with waits of 10s × 2 a time, at most 5m"} {
		if !strings.Contains(shown, want) {
			t.Errorf("job get shows\n%s\nwant %s", shown, want)
		}
	}
	if r := clitest.Run(t.Context(), "", "job", "upcoming", "--api", api, "seldom", "--from", "soon"); r.Code != 2 {
		t.Errorf("job upcoming --from soon exits %d with %q, want 2", r.Code, r.Stderr)
	}
	for _, step := range []struct{ command, want string }{{"pause", "paused"}, {"resume", "active"}, {"pause", "paused"}} {
		if shown := clitest.Succeed(t, "job", step.command, "--api", api, "often").Stdout; !strings.Contains(shown, step.want) {
			t.Errorf("job %s shows\n%s\nwant %s", step.command, shown, step.want)
		}
	}
	run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "job", "trigger", "--api", api, "often", "-o", "json").Stdout)
	if run.JobID != job.ID || run.Trigger != schema.TriggerManual {
		t.Errorf("job trigger answers %+v, want a manual run of the job", run)
	}
	awaitRun(t, api, run.ID.String(), schema.StateSucceeded)
	if shown := clitest.Succeed(t, "run", "get", "--api", api, run.ID.String()).Stdout; !strings.Contains(shown, "often") || !strings.Contains(shown, "manual") {
		t.Errorf("run get does not show job and trigger:\n%s", shown)
	}
	again := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "run", "retry", "--api", api, run.ID.String(), "-o", "json").Stdout)
	if again.Origin != run.ID {
		t.Errorf("run retry answers a run of origin %s, want %s", again.Origin, run.ID)
	}
	if shown := clitest.Succeed(t, "job", "cancel", "--api", api, "often").Stdout; !strings.Contains(shown, "cancelled") {
		t.Errorf("job cancel shows\n%s", shown)
	}
	if r := clitest.Run(t.Context(), "", "job", "resume", "--api", api, job.ID.String()); r.Code != 1 || !strings.Contains(r.Stderr, "(409)") {
		t.Errorf("job resume of a cancelled job exits %d with %q, want 1 and a 409", r.Code, r.Stderr)
	}
}

func TestJobsAreApplied(t *testing.T) {
	api := clitest.StartNode(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	inYAML := write("jobs.yaml", `# two jobs
name: nightly
nats: {subject: work.report}
schedule:
  cron: "0 2 * * *"
  timezone: Europe/Berlin
start: 2026-11-21T00:00:00Z
payload:
  n: 12345678901234567
  list: [1, "b"]
---
name: poll
http:
  url: http://127.0.0.1:9/
schedule: {every: 15m}
`)
	if got, want := clitest.Succeed(t, "job", "apply", "--api", api, "-f", inYAML).Stdout, "created nightly\ncreated poll\n"; got != want {
		t.Errorf("job apply prints %q, want %q", got, want)
	}
	nightly := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "get", "--api", api, "nightly", "-o", "json").Stdout)
	if got, want := string(compact(t, nightly.Payload)), `{"list":[1,"b"],"n":12345678901234567}`; got != want || nightly.Schedule.Timezone != "Europe/Berlin" || nightly.Start.IsZero() {
		t.Errorf("the applied job has payload %s, schedule %+v and start %v; want %s, Berlin and a start", got, nightly.Schedule, nightly.Start, want)
	}
	if got, want := clitest.Succeed(t, "job", "apply", "--api", api, "-f", inYAML).Stdout, "unchanged nightly\nunchanged poll\n"; got != want {
		t.Errorf("job apply again prints %q, want %q", got, want)
	}
	if again := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "get", "--api", api, "nightly", "-o", "json").Stdout); again.Generation != nightly.Generation {
		t.Errorf("applying the same made generation %d of %d", again.Generation, nightly.Generation)
	}
	r := clitest.Run(t.Context(), `{"name":"bad","schedule":{"cron":"60 * * * *"}} {"name":"poll","nats":{"subject":"a"},"schedule":{"every":"1h"}}`, "job", "apply", "--api", api, "-f", "-")
	if r.Code != 1 || r.Stdout != "refused bad\napplied poll\n" || !strings.Contains(r.Stderr, "body.schedule.cron") || !strings.Contains(r.Stderr, "1 of 2 jobs") {
		t.Errorf("job apply of a bad and a good job exits %d, prints %q and says %q", r.Code, r.Stdout, r.Stderr)
	}
	for name, text := range map[string]string{
		"no name": `{"nats":{"subject":"a"}}`, "no object": "- a\n- b\n", "not YAML": "a: [", "not JSON": `{"name":"a"`, "nothing": "---\n# nothing\n",
	} {
		if r := clitest.Run(t.Context(), text, "job", "apply", "--api", api, "-f", "-"); r.Code != 1 || r.Stdout != "" || r.Stderr == "" {
			t.Errorf("%s: job apply exits %d, prints %q and says %q; want 1 and the reason", name, r.Code, r.Stdout, r.Stderr)
		}
	}
}

func compact(t *testing.T, text json.RawMessage) []byte {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSchedulePreview(t *testing.T) {
	api := clitest.StartNode(t)
	r := clitest.Succeed(t, "schedule", "preview", "--api", api, "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2027-03-27T00:00:00Z", "--count", "2")
	for _, want := range []string{"TIME", "2027-03-28T01:00:00.000Z", "note: the 02:30 run of 2027-03-28 moves to 03:00"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("schedule preview has no %q:\n%s", want, r.Stdout)
		}
	}
	p := clitest.Decode[httpapi.Preview](t, clitest.Succeed(t, "schedule", "preview", "--api", api, "--every", "15m", "--count", "4", "--jitter", "0s", "-o", "json").Stdout)
	if len(p.Times) != 4 || p.Times[3].Sub(p.Times[0].Time) != 45*time.Minute || len(p.Notes) != 0 {
		t.Errorf("schedule preview -o json answers %+v, want four times and no notes", p)
	}
	if r := clitest.Run(t.Context(), "", "schedule", "preview", "--api", api, "--cron", "60 * * * *"); r.Code != 1 || !strings.Contains(r.Stderr, "body.schedule.cron") {
		t.Errorf("schedule preview of minute 60 exits %d with %q, want 1 and the fault", r.Code, r.Stderr)
	}
}

func TestRecurringFlagsThatMakeNoSense(t *testing.T) {
	for name, args := range map[string]string{
		"two schedules":       "job create --task a --cron @daily --every 5s",
		"schedule and time":   "job create --task a --cron @daily --in 5s",
		"zone of one run":     "job create --task a --timezone UTC",
		"empty cron":          "job create --task a --cron=",
		"negative interval":   "job create --task a --every -5s",
		"bad end":             "job create --task a --every 5s --end someday",
		"no runs":             "job create --task a --every 5s --max-runs 0",
		"a key, and no limit": "job create --task a --every 5s --concurrency-key /a",
		"no concurrency":      "job create --task a --every 5s --concurrency 0",
		"a limit of nothing":  "job create --task a --every 5s --on-limit skip",
		"event and schedule":  "job create --task a --on e --every 5s",
		"event and time":      "job create --task a --on e --in 5s",
		"jobs and event":      "job create --task a --after b --on e",
		"jobs and time":       "job create --task a --after b --at 2026-11-21T10:00:00Z",
		"runs of events":      "job create --task a --on e --max-runs 3",
		"no event":            "job create --task a --on=",
		"filter of nothing":   "job create --task a --filter true",
		"delay of nothing":    "job create --task a --delay 5s",
		"negative delay":      "job create --task a --on e --delay -5s",
		"condition of none":   "job create --task a --when all_done",
		"deadline of nothing": "job create --task a --after-deadline 1h",
		"no deadline":         "job create --task a --after b --after-deadline 0s",
		"stuck in a window":   "run list --stuck --from -1h",
		"no schedule":         "schedule preview",
		"no times":            "schedule preview --every 5s --count 0",
		"no file":             "job apply",
		"negative limit":      "job list --limit -1",
		"bad window":          "job runs a --from someday",
		"no run":              "run output 12",
		"no target":           "job import-crontab /etc/crontab",
		"two targets":         "job import-crontab /etc/crontab --task a --subject b",
		"a date of nothing":   "job import-crontab /etc/crontab --task a --on-date skip",
		"a label of no name":  "job import-crontab /etc/crontab --task a --label x",
		"an unknown form":     "job import-crontab /etc/crontab --task a --form bsd",
		"no job":              "job pause",
		"more than one job":   "job trigger a b",
		"a flag of something": "job list --every 5s",
	} {
		t.Run(name, func(t *testing.T) {
			if r := clitest.Run(t.Context(), "", strings.Fields(args)...); r.Code != 2 || r.Stderr == "" || r.Stdout != "" {
				t.Errorf("carillon %s exits %d with %q, want 2 and the reason", args, r.Code, r.Stderr)
			}
		})
	}
}

func TestCrontabBecomesJobs(t *testing.T) {
	api := clitest.StartNode(t)
	file := filepath.Join("..", "crontab", "testdata", "packages")
	args := []string{"job", "import-crontab", file, "--api", api, "--subject", "work.shell", "--form", "system", "--timezone", "Europe/Berlin"}
	r := clitest.Run(t.Context(), "", append(args, "--dry-run")...)
	if r.Code != 1 || !strings.Contains(r.Stderr, "line 8: @reboot has no time") || !strings.Contains(r.Stderr, "line 2: MAILTO") || !strings.Contains(r.Stderr, "1 of 8 lines were refused") {
		t.Errorf("import-crontab --dry-run exits %d and says\n%s\nwant 1, and lines 2 and 8", r.Code, r.Stderr)
	}
	if jobs := clitest.Succeed(t, "job", "list", "--api", api, "-o", "json").Stdout; jobs != "" {
		t.Errorf("import-crontab --dry-run made jobs:\n%s", jobs)
	}
	first := clitest.Run(t.Context(), "", args...)
	if got := strings.Count(first.Stdout, " created "); first.Code != 1 || got != 7 {
		t.Errorf("import-crontab exits %d and created %d jobs, want 1 and 7:\n%s%s", first.Code, got, first.Stdout, first.Stderr)
	}
	again := clitest.Run(t.Context(), "", args...)
	if got := strings.Count(again.Stdout, " unchanged "); got != 7 {
		t.Errorf("import-crontab again left %d jobs as they were, want 7:\n%s", got, again.Stdout)
	}
	var jobs []httpapi.Job
	for line := range strings.Lines(clitest.Succeed(t, "job", "list", "--api", api, "--label", "crontab=packages", "-o", "json").Stdout) {
		jobs = append(jobs, clitest.Decode[httpapi.Job](t, line))
	}
	if len(jobs) != 7 {
		t.Fatalf("there are %d jobs of the crontab, want 7", len(jobs))
	}
	backup := slices.IndexFunc(jobs, func(j httpapi.Job) bool { return strings.HasPrefix(j.Name, "cron-backup-") })
	if backup < 0 {
		t.Fatalf("no job is named after /usr/bin/backup: %+v", jobs)
	}
	j := jobs[backup]
	want := crontabPayload{Command: `/usr/bin/backup "a b"`, Stdin: " first line \n second\n", User: "backup"}
	if diff := cmp.Diff(want, clitest.Decode[crontabPayload](t, string(j.Payload))); diff != "" || j.Schedule.Cron != "@daily" || j.Schedule.Timezone != "Europe/Berlin" {
		t.Errorf("the backup is due %+v, payload (-want +got):\n%s", j.Schedule, diff)
	}
}

// Every expression of the crontabs is understood by the API, and what --dry-run prints can be
// applied.
func TestCrontabsOfEachFormAreUnderstood(t *testing.T) {
	api := clitest.StartNode(t)
	for file, form := range map[string]string{"system": "system", "user": "user"} {
		name := filepath.Join("..", "crontab", "testdata", file)
		dry := clitest.Run(t.Context(), "", "job", "import-crontab", name, "--api", api, "--task", "shell", "--form", form, "--dry-run", "-o", "json")
		if dry.Code != map[string]int{"system": 0, "user": 1}[file] || dry.Stdout == "" {
			t.Fatalf("import-crontab --dry-run of %s exits %d: %s", file, dry.Code, dry.Stderr)
		}
		if noted := strings.Contains(dry.Stderr, "read as UTC"); noted != (file == "system") {
			t.Errorf("import-crontab of %s says %q", file, dry.Stderr)
		}
		r := clitest.Run(t.Context(), dry.Stdout, "job", "apply", "--api", api, "-f", "-")
		if strings.Contains(r.Stderr, "body.schedule") || !strings.Contains(r.Stderr, "body.task") {
			t.Errorf("job apply of %s says %q, want a fault of the missing task alone", file, r.Stderr)
		}
	}
	name := filepath.Join("..", "crontab", "testdata", "system")
	r := clitest.Succeed(t, "job", "import-crontab", name, "--api", api, "--subject", "a", "--form", "system", "-o", "json")
	if lines := clitest.Decode[[]crontabLine](t, r.Stdout); len(lines) != 4 || lines[0].Result != "created" || lines[0].Line != 7 {
		t.Errorf("import-crontab -o json prints %+v, want four created", lines)
	}
}

func TestShellCompletion(t *testing.T) {
	api := clitest.StartNode(t)
	for _, name := range []string{"night-1", "night-2", "day"} {
		clitest.Succeed(t, "job", "create", "--api", api, "--subject", "a", "--name", name, "--every", "1h")
	}
	for name, row := range map[string]struct {
		args []string
		want []string
		not  string
	}{
		"commands":  {[]string{""}, []string{"job", "run", "schedule", "completion"}, ""},
		"jobs":      {[]string{"job", "pause", "--api", api, "night"}, []string{"night-1\tactive", "night-2\tactive"}, "day"},
		"one alone": {[]string{"job", "pause", "--api", api, "day", ""}, nil, "night"},
		"a state":   {[]string{"job", "list", "--state", ""}, []string{"paused", "finished"}, "pending"},
		"no API":    {[]string{"job", "get", "--api", "http://" + closedPort(t), ""}, nil, "night"},
	} {
		t.Run(name, func(t *testing.T) {
			got := clitest.Succeed(t, append([]string{"__complete"}, row.args...)...).Stdout
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("completion of %q has no %q:\n%s", row.args, want, got)
				}
			}
			if row.not != "" && strings.Contains(got, row.not) {
				t.Errorf("completion of %q has %q:\n%s", row.args, row.not, got)
			}
		})
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := clitest.Succeed(t, "completion", shell); !strings.Contains(r.Stdout, "carillon") {
			t.Errorf("completion %s prints %d bytes without the program's name", shell, len(r.Stdout))
		}
	}
}

func TestShowSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		15 * time.Minute: "15m", time.Hour: "1h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 100 * time.Minute: "1h40m", 10 * time.Minute: "10m",
		time.Hour + time.Second: "1h0m1s", 20 * time.Hour: "20h",
	} {
		if got := showSpan(d); got != want {
			t.Errorf("showSpan(%v) = %q, want %q", d, got, want)
		}
	}
}
