package httpapi

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

func TestClientCallsOfRecurringJobs(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL)
	ctx := t.Context()
	none := schema.Duration(0)
	asked := request.JobRequest{
		Work: schema.Work{NATS: &schema.NATSTarget{Subject: "a"}}, Jitter: &none, Labels: map[string]string{"team": "a=b"},
		Schedule: &request.Schedule{Every: schema.Duration(15 * time.Minute)},
	}
	job, created, err := c.PutJob(ctx, "n", asked)
	if err != nil || !created || job.Name != "n" || job.Jitter == nil || *job.Jitter != 0 {
		t.Fatalf("PutJob = %+v, created %t, %v; want it created without jitter", job, created, err)
	}
	again, created, err := c.PutJob(ctx, "n", json.RawMessage(`{"nats":{"subject":"b"},"schedule":{"cron":"0 * * * *"}}`))
	if err != nil || created || again.ID != job.ID || again.NATS.Subject != "b" {
		t.Errorf("PutJob again = %+v, created %t, %v; want %s replaced", again, created, err, job.ID)
	}
	if got, err := c.Job(ctx, "n"); err != nil || cmp.Diff(again, got) != "" {
		t.Errorf("Job = %+v, %v; want %+v", got, err, again)
	}
	if got, err := c.PauseJob(ctx, "n"); err != nil || got.State != "paused" {
		t.Errorf("PauseJob = %+v, %v; want it paused", got, err)
	}
	if got, err := c.ResumeJob(ctx, job.ID.String()); err != nil || got.State != "active" {
		t.Errorf("ResumeJob = %+v, %v; want it active", got, err)
	}
	run, err := c.TriggerJob(ctx, "n", "k")
	if twice, terr := c.TriggerJob(ctx, "n", "k"); err != nil || terr != nil || run.JobID != job.ID || twice.ID != run.ID {
		t.Errorf("TriggerJob with one key = %s, %v and %s, %v; want one run of the job", run.ID, err, twice.ID, terr)
	}
	if next, err := c.Upcoming(ctx, "n", time.Time{}, 3); err != nil || len(next) != 3 || !next[0].NominalAt.Equal(testNow.Add(30*time.Minute)) {
		t.Errorf("Upcoming = %+v, %v; want three, the first at 10:00", next, err)
	}
	if next, err := c.Upcoming(ctx, "n", testNow.Add(30*time.Minute), 3); err != nil || len(next) != 3 || !next[0].NominalAt.After(testNow.Add(30*time.Minute)) {
		t.Errorf("Upcoming after 10:00 = %+v, %v; want three, the first after it", next, err)
	}
	asked.Labels = nil
	for _, name := range []string{"m-1", "m-2"} {
		if _, _, err := c.PutJob(ctx, name, asked); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		query JobQuery
		want  []string
	}{
		{JobQuery{Limit: 1}, []string{"m-2", "m-1", "n"}},
		{JobQuery{NamePrefix: "m-", Limit: 1}, []string{"m-2", "m-1"}},
		{JobQuery{State: schema.JobPaused}, nil},
		{JobQuery{Label: "team=a=b"}, nil},
	} {
		var got []string
		for j, err := range c.Jobs(ctx, row.query) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, j.Name)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("Jobs(%+v) yields %q, want %q", row.query, got, row.want)
		}
	}
	first := b.ends(job.ID, testNow.Add(-time.Hour), schema.StateSucceeded)
	second := b.ends(job.ID, testNow.Add(-time.Minute), schema.StateFailed)
	for _, row := range []struct {
		query JobRunQuery
		want  []schema.RunID
	}{
		{JobRunQuery{Limit: 1}, []schema.RunID{second, first}},
		{JobRunQuery{State: schema.StateFailed}, []schema.RunID{second}},
		{JobRunQuery{To: testNow.Add(-time.Minute)}, []schema.RunID{first}},
		{JobRunQuery{From: testNow.Add(-time.Minute)}, []schema.RunID{second}},
	} {
		var got []schema.RunID
		for r, err := range c.JobRuns(ctx, "n", row.query) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.ID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("JobRuns(%+v) yields %v, want %v", row.query, got, row.want)
		}
	}
	p, err := c.PreviewSchedule(ctx, request.PreviewRequest{Schedule: &request.Schedule{Cron: "0 9 * * *", Timezone: "Europe/Berlin"}, Count: 2})
	if err != nil || len(p.Times) != 2 || p.Description == "" {
		t.Errorf("PreviewSchedule = %+v, %v; want two times in words", p, err)
	}
	var problem *Problem
	if _, err := c.PauseJob(ctx, "none"); !errors.As(err, &problem) || problem.Status != 404 {
		t.Errorf("PauseJob of no job = %v, want not found", err)
	}
}

// TestRecurringLinesThatShareBatchesFillAChunk: they are not many for one chunk as those are that
// each cost conditional writes.
func TestRecurringLinesThatShareBatchesFillAChunk(t *testing.T) {
	const n = 2*maxRecurring + 88
	for name, row := range map[string]struct {
		line string
		most int // jobs that are made together
	}{
		"plain": {`{"nats":{"subject":"a"},"schedule":{"cron":"0 * * * *"}}`, n},
		"keyed": {`{"key":"%d","nats":{"subject":"a"},"schedule":{"cron":"0 * * * *"}}`, maxRecurring},
		"named": {`{"name":"n%d","nats":{"subject":"a"},"schedule":{"cron":"0 * * * *"}}`, maxRecurring},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStub()
			var lines strings.Builder
			for i := range n {
				lines.WriteString(strings.ReplaceAll(row.line, "%d", strconv.Itoa(i)) + "\n")
			}
			c := newClient(t, serve(t, b, func(c *Config, _ *Deps) { c.ChunkAge = time.Minute }).URL)
			sum, err := c.Import(t.Context(), strings.NewReader(lines.String()), ImportOptions{ErrorsOnly: true}, func(r ImportResult) error {
				t.Errorf("line %d = %d", r.Line, r.Status)
				return nil
			})
			if err != nil || sum.Created != n || slices.Max(b.jobs.batches) != row.most {
				t.Errorf("Import = %+v, %v; at most %d were made together, want %d", sum, err, slices.Max(b.jobs.batches), row.most)
			}
		})
	}
}

// Lines of jobs that can have many runs stand among the others.
func TestImportOfRecurringJobs(t *testing.T) {
	b := newStub()
	c := newClient(t, serve(t, b).URL)
	lines := []string{
		`{"nats":{"subject":"a"}}`,
		`{"name":"one","nats":{"subject":"a"},"schedule":{"every":"1m"}}`,
		`{"key":"k","nats":{"subject":"a"},"schedule":{"cron":"0 * * * *"}}`,
		`{"nats":{"subject":"b"}}`,
		`{"name":"one","nats":{"subject":"a"},"schedule":{"every":"2m"}}`,
		`{"nats":{"subject":"a"},"schedule":{"every":"0s"}}`,
		`{"task":"none","schedule":{"every":"1m"}}`,
	}
	for _, row := range []struct {
		options ImportOptions
		want    map[int64]int // status by line
	}{
		{ImportOptions{ValidateOnly: true}, map[int64]int{1: 200, 2: 200, 3: 200, 4: 200, 5: 200, 6: 422, 7: 422}},
		{ImportOptions{}, map[int64]int{1: 201, 2: 201, 3: 201, 4: 201, 5: 409, 6: 422, 7: 422}},
		{ImportOptions{}, map[int64]int{1: 201, 2: 409, 3: 200, 4: 201, 5: 409, 6: 422, 7: 422}},
	} {
		got := make(map[int64]int)
		sum, err := c.Import(t.Context(), strings.NewReader(strings.Join(lines, "\n")), row.options, func(r ImportResult) error {
			got[r.Line] = r.Status
			_, oneOff := r.ID.OneOff()
			if ok := r.Status < 300 && !row.options.ValidateOnly; ok && (r.Line == 1 || r.Line == 4) != oneOff {
				t.Errorf("line %d has the id %s, one-off: %t", r.Line, r.ID, oneOff)
			}
			return nil
		})
		if row.want[2] == 201 { // of two lines of one name either may be first
			if got[2] == 409 && got[5] == 201 {
				got[2], got[5] = 201, 409
			}
		}
		if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("Import(%+v) = %+v, %v (-want +got):\n%s", row.options, sum, err, diff)
		}
	}
	if len(b.jobs.byID) != 2 {
		t.Errorf("the imports made %d recurring jobs, want 2", len(b.jobs.byID))
	}
}
