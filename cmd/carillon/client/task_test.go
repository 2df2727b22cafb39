package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

func TestTasks(t *testing.T) {
	api := clitest.StartNode(t)
	task := func(args ...string) httpapi.Task {
		t.Helper()
		return clitest.Decode[httpapi.Task](t, clitest.Succeed(t, append([]string{"task", "set", "a", "--api", api, "-o", "json"}, args...)...).Stdout)
	}
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"object","required":["to"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	made := task("--url", "http://127.0.0.1:1/", "--header", "x-a:b", "--timeout", "5s", "--rate", "1000/s", "--payload-schema", "@"+file, "--description", "d")
	if made.HTTP.URL != "http://127.0.0.1:1/" || made.HTTP.Headers["x-a"] != "b" || made.Timeout.Std() != 5*time.Second || made.Rate != "1000/s" || made.Description != "d" {
		t.Errorf("task set = %+v", made)
	}
	changed := task("--rate", "10/m", "--max-attempts", "2", "--max-concurrent", "5")
	if slower := task("--retry-initial", "30s"); slower.Retry.MaxAttempts != 2 || slower.Retry.Initial.Std() != 30*time.Second {
		t.Errorf("task set --retry-initial = %+v, want the attempts as they were", slower.Retry)
	}
	if changed.Rate != "10/m" || changed.MaxConcurrent != 5 || changed.Retry.MaxAttempts != 2 || changed.HTTP.Headers["x-a"] != "b" || changed.Timeout != made.Timeout || string(changed.PayloadSchema) != string(made.PayloadSchema) {
		t.Errorf("task set of a rate = %+v, want all else as it was: %+v", changed, made)
	}
	if elsewhere := task("--url", "http://127.0.0.1:2/"); elsewhere.HTTP.URL != "http://127.0.0.1:2/" || elsewhere.HTTP.Headers["x-a"] != "b" || elsewhere.Rate != "10/m" {
		t.Errorf("task set of a URL = %+v, want all else as it was: %+v", elsewhere, changed)
	}
	if r := clitest.Run(t.Context(), "", "job", "create", "--api", api, "--task", "a", "--payload", "{}"); r.Code != 1 || !strings.Contains(r.Stderr, `body.payload: must have "to"`) {
		t.Errorf("job create with a payload that does not fit exits %d with %q", r.Code, r.Stderr)
	}
	clitest.Succeed(t, "job", "create", "--api", api, "--task", "a", "--payload", `{"to":1}`, "--in", "1h")
	if stops := task("--preemptible"); !stops.Preemptible || task("--preemptible=false").Preemptible {
		t.Errorf("task set --preemptible = %+v, want that it is, and is not with false", stops)
	}
	if same := task("--preemptible", "--description", "d"); same.MaxConcurrent != 5 {
		t.Errorf("task set of a description = %+v, want that 5 may run at once as before", same)
	}
	if out := clitest.Succeed(t, "task", "get", "a", "--api", api).Stdout; !strings.Contains(out, "10/m  5 ") {
		t.Errorf("task get writes %q, want that 5 may run at once", out)
	}
	moved := task("--subject", "work.a", "--preemptible=false", "--rate", "none", "--max-concurrent", "0", "--payload-schema", "none", "--guarantee", "at_most_once")
	if moved.HTTP != nil || moved.NATS == nil || moved.Rate != "" || moved.MaxConcurrent != 0 || moved.PayloadSchema != nil || moved.Guarantee != schema.AtMostOnce || moved.Description != "d" {
		t.Errorf("task set of another target = %+v", moved)
	}
	for _, command := range []string{"list", "get a"} {
		if out := clitest.Succeed(t, append([]string{"task", "--api", api}, strings.Fields(command)...)...).Stdout; !strings.Contains(out, "nats work.a") || !strings.Contains(out, "at_most_once") {
			t.Errorf("task %s writes %q", command, out)
		}
	}
	for name, row := range map[string]struct {
		args string
		code int
		want string
	}{
		"two targets":            {"b --url http://x/ --subject y", 2, "at most one of"},
		"no target":              {"b --rate 1/s", 1, "must have exactly one of http, nats, script, lambda, jetstream, sqs, sns, eventbridge, step_functions and kafka"},
		"a bad rate":             {"a --rate 1/d", 1, "body.rate: must be a number of starts"},
		"an empty rate":          {"a --rate=", 2, "state one, such as 100/s, or none"},
		"a bad schema":           {`a --payload-schema {"type":7}`, 1, "body.payload_schema/type: must be"},
		"a schema that is none":  {"a --payload-schema {", 2, "is not JSON"},
		"a header without a URL": {"a --header a:b", 2, "go with a task that calls a URL"},
		"fewer than none":        {"a --max-concurrent -1", 2, "below 0"},
		"far too many at once":   {"a --max-concurrent 1000001", 1, "body.max_concurrent: must be a whole number from 1 to 1000000"},
		"no attempts":            {"a --max-attempts 0", 2, "below 1"},
	} {
		if r := clitest.Run(t.Context(), "", append([]string{"task", "set", "--api", api}, strings.Fields(row.args)...)...); r.Code != row.code || !strings.Contains(r.Stderr, row.want) {
			t.Errorf("%s: task set %s exits %d with %q, want %d and %q", name, row.args, r.Code, r.Stderr, row.code, row.want)
		}
	}
	clitest.Succeed(t, "task", "delete", "a", "--api", api)
	if r := clitest.Run(t.Context(), "", "task", "get", "a", "--api", api); r.Code != 1 || !strings.Contains(r.Stderr, "404") {
		t.Errorf("task get of a deleted task exits %d with %q", r.Code, r.Stderr)
	}
}

// The rate of a task reaches the dispatchers of a node, and a deferred run says so: the rate allows
// one start an hour, and reservations reach ten minutes ahead.
func TestRunsBeyondTheRateWait(t *testing.T) {
	api := clitest.StartNode(t)
	clitest.Succeed(t, "task", "set", "seldom", "--api", api, "--subject", "work.seldom", "--rate", "1/h")
	for begin := time.Now(); ; {
		job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--task", "seldom", "-o", "json").Stdout)
		for range 10 {
			run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "run", "get", "--api", api, job.ID.String(), "-o", "json").Stdout)
			ahead := time.Until(run.DeferredUntil.Time)
			// the rate is not known yet, or it has the start of this hour
			if run.DeferredUntil.IsZero() || ahead < time.Minute {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			// nobody answers the first
			if waits := run.State == schema.StatePending || run.State == schema.StateRetrying; !waits || ahead > 11*time.Minute {
				t.Errorf("the run is %s and put off by %s, want that it waits, for ten minutes", run.State, ahead)
			}
			return
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("no run was put off")
		}
	}
}
