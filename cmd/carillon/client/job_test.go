package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

func TestJobIsCreatedRunsAndIsShown(t *testing.T) {
	api := clitest.StartNode(t)
	called := make(chan string, 8)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- r.Method + " " + r.Header.Get("X-Team") + " " + r.Header.Get("Carillon-Run-Id")
		_, _ = fmt.Fprint(w, "done\x1b[31m\nsecond line\n")
	}))
	defer sink.Close()

	made := clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL, "--method", "PUT", "--header", "X-Team: a:b",
		"--payload", `{"n":1}`, "--label", "team=billing", "--priority", "high", "--timeout", "7s", "--max-attempts", "2",
		"--retry-initial", "5s", "--retry-factor", "3", "--retry-max", "1m", "--retry-jitter", "none", "-o", "json")
	job := clitest.Decode[httpapi.Job](t, made.Stdout)
	retry := schema.Retry{MaxAttempts: 2, Initial: schema.Duration(5 * time.Second), Factor: 3, Max: schema.Duration(time.Minute), Jitter: "none"}
	if job.Priority != schema.High || job.Labels["team"] != "billing" || job.Timeout.Std() != 7*time.Second || *job.Retry != retry {
		t.Errorf("job create answers %+v, want what the flags said", job)
	}
	if got, want := <-called, "PUT a:b "+job.ID.String(); got != want {
		t.Errorf("the call was %q, want %q", got, want)
	}
	run := awaitRun(t, api, job.ID.String(), schema.StateSucceeded)
	// A node that has just taken its shards over may start a run of these seconds twice.
	if len(run.Attempts) == 0 || run.Attempts[0].StatusCode != 200 {
		t.Errorf("run get answers attempts %+v, want one with 200", run.Attempts)
	}

	shown := clitest.Succeed(t, "run", "get", "--api", api, job.ID.String()).Stdout
	for _, want := range []string{"succeeded", "ATTEMPT", `done\u001b[31m`, "  second line", `{"n":1}`} {
		if !strings.Contains(shown, want) {
			t.Errorf("run get has no %q:\n%s", want, shown)
		}
	}
	list := clitest.Succeed(t, "run", "list", "--api", api).Stdout
	if !strings.Contains(list, job.ID.String()) || !strings.Contains(list, "succeeded") {
		t.Errorf("run list does not show the run:\n%s", list)
	}
	if list := clitest.Succeed(t, "run", "list", "--api", api, "--to", "5s", "--state", "failed").Stdout; strings.Contains(list, job.ID.String()) {
		t.Errorf("run list --state failed shows a run that succeeded:\n%s", list)
	}
	if shown := clitest.Succeed(t, "job", "get", "--api", api, job.ID.String()).Stdout; !strings.Contains(shown, "finished") || !strings.Contains(shown, "PUT "+sink.URL) {
		t.Errorf("job get shows\n%s", shown)
	}
	if r := clitest.Run(t.Context(), "", "job", "cancel", "--api", api, job.ID.String()); r.Code != 1 || !strings.Contains(r.Stderr, "(409)") {
		t.Errorf("job cancel of a finished job exits %d with %q, want 1 and a 409", r.Code, r.Stderr)
	}
}

// awaitRun asks for a run until it has a state.
func awaitRun(t *testing.T, api, id string, want schema.State) httpapi.Run {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for {
		run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "run", "get", "--api", api, id, "-o", "json").Stdout)
		if run.State == want {
			return run
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("run %s is %s, want %s", id, run.State, want)
		}
	}
}

func TestJobIsCancelled(t *testing.T) {
	api := clitest.StartNode(t)
	r := clitest.Succeed(t, "job", "create", "--api", api, "--subject", "work.a", "--in", "30m", "--idempotency-key", "k")
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "ID ") {
		t.Fatalf("job create prints\n%s\nwant a head and a line", r.Stdout)
	}
	id, _, _ := strings.Cut(lines[1], " ")
	due, err := schema.ParseEntryID(id)
	if err != nil || !strings.Contains(lines[1], due.Time().UTC().Format("2006-01-02T15:04:05.000Z")) {
		t.Errorf("job create prints %q, want id and due time in UTC", lines[1])
	}
	for _, name := range []string{"once", "twice"} {
		if r := clitest.Succeed(t, "job", "cancel", "--api", api, id); !strings.Contains(r.Stdout, "cancelled") {
			t.Errorf("job cancel %s prints\n%s", name, r.Stdout)
		}
	}
	if list := clitest.Succeed(t, "run", "list", "--api", api, "-o", "json", "--state", "cancelled", "--from", "20m", "--to", "31m").Stdout; !strings.Contains(list, id) {
		t.Errorf("run list -o json --state cancelled prints %q, want run %s", list, id)
	}
}

func TestRunListSaysThatThereAreMore(t *testing.T) {
	api := clitest.StartNode(t)
	for range 3 {
		clitest.Succeed(t, "job", "create", "--api", api, "--subject", "a", "--in", "5m")
	}
	for _, row := range []struct {
		limit string
		lines int
		more  bool
	}{{"2", 2, true}, {"3", 3, false}, {"0", 3, false}} {
		r := clitest.Succeed(t, "run", "list", "--api", api, "-o", "json", "--to", "6m", "--limit", row.limit)
		if got := strings.Count(r.Stdout, "\n"); got != row.lines || (r.Stderr != "") != row.more {
			t.Errorf("run list --limit %s: %d lines and %q on stderr, want %d lines, more: %t", row.limit, got, r.Stderr, row.lines, row.more)
		}
	}
}

func TestEveryFaultIsOnItsOwnLine(t *testing.T) {
	api := clitest.StartNode(t)
	r := clitest.Run(t.Context(), "", "job", "create", "--api", api, "--url", "ftp://x", "--priority", "urgent", "--max-attempts", "100000")
	if r.Code != 1 || r.Stdout != "" {
		t.Errorf("job create of a bad job exits %d and prints %q, want 1 and nothing", r.Code, r.Stdout)
	}
	lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
	if !strings.HasPrefix(lines[0], "carillon: create job: ") || !strings.HasSuffix(lines[0], "(422)") {
		t.Errorf("job create of a bad job begins with %q", lines[0])
	}
	for _, location := range []string{"body.http.url", "body.priority", "body.retry.max_attempts"} {
		n := 0
		for _, line := range lines[1:] {
			if strings.HasPrefix(line, "  "+location+": ") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d lines name %s, want 1:\n%s", n, location, r.Stderr)
		}
	}
	gone := "0199aa00-0000-8000-8000-000000000001"
	if r := clitest.Run(t.Context(), "", "run", "get", "--api", api, gone); r.Code != 1 || !strings.Contains(r.Stderr, "(404)") {
		t.Errorf("run get of nothing exits %d with %q, want 1 and a 404", r.Code, r.Stderr)
	}
}

// The user is told that a job whose time is past starts at once.
func TestJobOfThePastIsNoted(t *testing.T) {
	api := clitest.StartNode(t)
	for name, row := range map[string]struct {
		at    string
		noted bool
	}{
		"past":   {time.Now().Add(-time.Hour).Format(time.RFC3339), true},
		"future": {time.Now().Add(time.Hour).Format(time.RFC3339), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.Succeed(t, "job", "create", "--api", api, "--subject", "a", "--at", row.at, "-o", "json")
			if got := strings.Contains(r.Stderr, "past: the job starts at once"); got != row.noted {
				t.Errorf("job create --at %s says %q on stderr, want a note: %t", row.at, r.Stderr, row.noted)
			}
			clitest.Decode[httpapi.Job](t, r.Stdout) // the note is not in it
		})
	}
}

// The error names the flag that was refused.
func TestRefusedFlagsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"job create --url=":                    "--url is empty",
		"job create --task b --in -5s":         "--in: -5s is negative",
		"job create --task b --unique-by task": "--unique-by goes with --unique-window",
		"job create --task b --max-attempts 0": "--max-attempts: 0 is below 1",
	} {
		t.Run(args, func(t *testing.T) {
			if r := clitest.Run(t.Context(), "", strings.Fields(args)...); !strings.Contains(r.Stderr, want) {
				t.Errorf("carillon %s says %q, want %q", args, r.Stderr, want)
			}
		})
	}
}

func TestRequestOfFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(file, []byte(`[1, 2]`), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		args, stdin string
		want        request.JobRequest
	}{
		"task, now": {args: "--task a", want: request.JobRequest{Task: "a"}},
		"in": {args: "--task a --in 5s", want: request.JobRequest{
			Task: "a", Schedule: &request.Schedule{At: now.Add(5 * time.Second)},
		}},
		"payload of a file": {args: "--task a --payload @" + file, want: request.JobRequest{Task: "a", Payload: json.RawMessage(`[1, 2]`)}},
		"payload of stdin":  {args: "--task a --payload -", stdin: `{}`, want: request.JobRequest{Task: "a", Payload: json.RawMessage(`{}`)}},
		"nats":              {args: "--subject s", want: request.JobRequest{Work: schema.Work{NATS: &schema.NATSTarget{Subject: "s"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := jobCreateCommand(&cli.Remote{})
			var got request.JobRequest
			cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
				f := jobFlags{}
				for flag, into := range map[string]*string{"task": &f.task, "subject": &f.subject, "payload": &f.payload} {
					*into = cmd.Flags().Lookup(flag).Value.String()
				}
				if f.in, err = cmd.Flags().GetDuration("in"); err != nil {
					return err
				}
				got, err = f.request(cmd, now)
				return err
			}
			cmd.SetArgs(strings.Fields(row.args))
			cmd.SetIn(strings.NewReader(row.stdin))
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			if got.Key == "" {
				t.Error("request has no key, want one that was drawn")
			}
			got.Key = ""
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("request of %s (-want +got):\n%s", row.args, diff)
			}
		})
	}
}
