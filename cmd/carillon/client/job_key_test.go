package client

import (
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

// The same command with --in and a key makes one job; another one with that key is refused.
func TestSameKeyWithInMakesOneJob(t *testing.T) {
	api := clitest.StartNode(t)
	args := strings.Fields("job create --subject a --in 10m --idempotency-key order-1 -o json --label team=billing --api " + api)
	first := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, args...).Stdout)
	again := clitest.Succeed(t, args...)
	if job := clitest.Decode[httpapi.Job](t, again.Stdout); job.ID != first.ID || !job.Schedule.At.Equal(first.Schedule.At.Time) {
		t.Errorf("the same command made %s at %v, want %s at %v", job.ID, job.Schedule.At, first.ID, first.Schedule.At)
	}
	if !strings.Contains(again.Stderr, "made this job before") {
		t.Errorf("the same command says %q, want that no other job was made", again.Stderr)
	}
	for flags, field := range map[string]string{
		"--subject b --in 10m --label team=billing": "nats", "--subject a --in 10m": "labels", "--subject a --in 20m --label team=billing": "--in",
		"--subject a --in 10m --label team=billing --payload 1": "payload",
	} {
		r := clitest.Run(t.Context(), "", append(strings.Fields("job create --idempotency-key order-1 --api "+api), strings.Fields(flags)...)...)
		if r.Code != 1 || !strings.Contains(r.Stderr, "has another "+field) || !strings.Contains(r.Stderr, "(422)") {
			t.Errorf("job create %s with the same key exits %d with %q, want 1, a 422 and %s", flags, r.Code, r.Stderr, field)
		}
	}
}

func TestJobsOfOneKeyThatDiffer(t *testing.T) {
	made := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	is := httpapi.Job{Task: "a", Priority: "normal", Schedule: httpapi.JobSchedule{At: httpapi.Time{Time: made.Add(10 * time.Minute)}}, CreatedAt: httpapi.Time{Time: made}, UpdatedAt: httpapi.Time{Time: made}}
	moved := is
	moved.UpdatedAt = httpapi.Time{Time: made.Add(time.Minute)}
	for name, row := range map[string]struct {
		is   httpapi.Job
		job  request.JobRequest
		in   time.Duration
		want string
	}{
		"the same":    {is, request.JobRequest{Task: "a"}, 10 * time.Minute, ""},
		"priority":    {is, request.JobRequest{Task: "a", Priority: schema.High}, 10 * time.Minute, "priority"},
		"task":        {is, request.JobRequest{Task: "b"}, 10 * time.Minute, "task"},
		"payload":     {is, request.JobRequest{Task: "a", Payload: []byte("{}")}, 10 * time.Minute, "payload"},
		"clocks":      {is, request.JobRequest{Task: "a"}, 10*time.Minute + 30*time.Second, ""},
		"instant":     {is, request.JobRequest{Task: "a"}, 12 * time.Minute, "--in"},
		"moved since": {moved, request.JobRequest{Task: "a"}, 12 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := differsIn(&row.is, row.job, row.in); err != nil || got != row.want {
				t.Errorf("differsIn = %q, %v; want %q", got, err, row.want)
			}
		})
	}
}
