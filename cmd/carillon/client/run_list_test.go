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

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

// listedRuns returns the runs that a command line lists as JSON.
func listedRuns(t *testing.T, api string, args ...string) (runs []httpapi.Run) {
	t.Helper()
	out := clitest.Succeed(t, append([]string{"run", "list", "--api", api, "-o", "json"}, args...)...).Stdout
	for line := range strings.Lines(out) {
		runs = append(runs, clitest.Decode[httpapi.Run](t, line))
	}
	return runs
}

func TestRunsAreListedByFilters(t *testing.T) {
	api := clitest.StartNode(t)
	sink := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(sink.Close)
	create := func(args ...string) schema.RunID {
		t.Helper()
		job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, append([]string{"job", "create", "--api", api, "-o", "json"}, args...)...).Stdout)
		return schema.RunID(job.ID)
	}
	failed := create("--url", sink.URL, "--label", "team=a", "--idempotency-key", "order 7")
	soon := create("--url", sink.URL, "--label", "team=a", "--label", "env=prod", "--in", "10m")
	tomorrow := create("--url", sink.URL, "--label", "team=b", "--in", "20h")
	awaitRun(t, api, failed.String(), schema.StateFailed)
	type rows map[string]struct {
		args []string
		want []schema.RunID
	}
	for name, row := range (rows{
		"a label":             {[]string{"--label", "team=a"}, []schema.RunID{failed, soon}},
		"two labels":          {[]string{"--label", "team=a", "--label", "env=prod"}, []schema.RunID{soon}},
		"a day":               {[]string{"--to", "23h"}, []schema.RunID{failed, soon, tomorrow}},
		"two states":          {[]string{"--to", "23h", "--state", "failed,missed"}, []schema.RunID{failed}},
		"two states, again":   {[]string{"--to", "23h", "--state", "failed", "--state", "pending", "--label", "team=b"}, []schema.RunID{tomorrow}},
		"late":                {[]string{"--late", "1h"}, nil},
		"a key":               {[]string{"--key", "order 7"}, []schema.RunID{failed}},
		"a key of the window": {[]string{"--key", "order 7", "--from", "-1m"}, []schema.RunID{failed}},
		"a key of another":    {[]string{"--key", "order 7", "--from", "1m"}, nil},
	}) {
		var got []schema.RunID
		for _, r := range listedRuns(t, api, row.args...) {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: run list %q = %v, want %v", name, row.args, got, row.want)
		}
	}
	for name, row := range (rows{
		"an error":            {[]string{"--error", "ANSWERED 404"}, []schema.RunID{failed}},
		"one-off jobs":        {[]string{"--one-off", "--label", "team=a"}, []schema.RunID{failed, soon}},
		"the newest first":    {[]string{"--newest", "--from", "-10m", "--to", "15m"}, []schema.RunID{soon, failed}},
		"newest, by label":    {[]string{"--newest", "--from", "-10m", "--label", "team=a"}, []schema.RunID{failed}},
		"newest, that failed": {[]string{"--newest", "--from", "-10m", "--error", "answered 404"}, []schema.RunID{failed}},
	}) {
		var got []schema.RunID
		for _, r := range listedRuns(t, api, row.args...) {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: run list %q = %v, want %v", name, row.args, got, row.want)
		}
	}
	for _, r := range listedRuns(t, api, "--label", "team=a") {
		if got := strings.HasPrefix(r.Error, "answered 404"); got != (r.ID == failed) {
			t.Errorf("run list -o json shows run %s, %s, with the error %q; want one of that which failed alone", r.ID, r.State, r.Error)
		}
	}
	for args, want := range map[string]string{"": "partitions of due times", "--state failed": "the dead letters"} {
		args := append([]string{"run", "list", "--api", api, "--newest", "--from", "-10m"}, strings.Fields(args)...)
		clitest.Await(t, "the run is found", func() bool { // a dead letter is written right after the record
			return strings.Contains(clitest.Succeed(t, args...).Stdout, failed.String())
		})
		if said := clitest.Succeed(t, args...).Stderr; !strings.Contains(said, "Searched back to ") || !strings.Contains(said, want) {
			t.Errorf("%q says %q, want %q and how far it came", args, said, want)
		}
	}
	counted := clitest.Decode[httpapi.RunStates](t, clitest.Succeed(t, "stats", "states", "--api", api, "--from", "-10m", "--to", "15m", "--label", "team=a", "-o", "json").Stdout)
	if counted.Done != 1 || counted.Delayed != 1 || counted.States["failed"] != 1 || !counted.Complete {
		t.Errorf("stats states = %+v, want one that is done and one that is delayed", counted)
	}
	table := clitest.Succeed(t, "stats", "states", "--api", api, "--from", "-10m", "--to", "15m", "--one-off").Stdout
	for _, want := range []string{"DUE SOON", "STATE", "failed"} {
		if !strings.Contains(table, want) {
			t.Errorf("stats states has no %q:\n%s", want, table)
		}
	}
	none := clitest.Succeed(t, "run", "list", "--api", api, "--key", "order 8")
	if !strings.Contains(none.Stderr, `No run of the key "order 8" is known`) || strings.Count(none.Stdout, "\n") != 1 {
		t.Errorf("run list of a key that is not known prints %q and %q", none.Stdout, none.Stderr)
	}

	at := time.Now().Add(30 * time.Hour).UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	var lines strings.Builder
	_, _ = fmt.Fprintf(&lines, `{"key":"line","nats":{"subject":"a"},"schedule":{"at":%q}}`+"\n", at)
	resp, err := http.Post(api+"/v1/imports", "application/x-ndjson", strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	var line httpapi.ImportResult
	err = json.NewDecoder(resp.Body).Decode(&line)
	_ = resp.Body.Close()
	if err != nil || line.Status != 201 {
		t.Fatalf("the import answers %+v, %v", line, err)
	}
	if got := listedRuns(t, api, "--key", "line", "--at", at); len(got) != 1 || got[0].ID != schema.RunID(line.ID) {
		t.Errorf("run list of the key of a line = %+v, want %s", got, line.ID)
	}
	if none := clitest.Succeed(t, "run", "list", "--api", api, "--key", "line", "--at", "1h"); !strings.Contains(none.Stderr, "and that instant") {
		t.Errorf("run list of the key of a line at another instant says %q", none.Stderr)
	}
}

func TestRunsOfStepsAreListed(t *testing.T) {
	api := clitest.StartNode(t)
	sink := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(sink.Close)
	file := filepath.Join(t.TempDir(), "fan.yaml")
	text := fmt.Sprintf("name: fan\nsteps:\n- name: each\n  http: {url: %q}\n  for_each: {items: [1, 2]}\n- name: rest\n  after: [each]\n  when: all_done\n  wait: {event: approved}\n", sink.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Succeed(t, "workflow", "apply", "--api", api, "-f", file)
	run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "workflow", "run", "--api", api, "fan", "-o", "json").Stdout)
	awaitRun(t, api, run.ID.String(), schema.StateWaiting)
	if got := listedRuns(t, api, "--state", "waiting"); len(got) != 1 || got[0].ID != run.ID || got[0].State != schema.StateWaiting {
		t.Errorf("run list --state waiting = %+v, want %s", got, run.ID)
	}
	failed := listedRuns(t, api, "--workflow-run", run.ID.String(), "--state", "failed")
	if len(failed) != 2 || failed[0].Item == nil || *failed[1].Item != 1 || failed[0].Step != "each" {
		t.Errorf("items that failed are %+v, want both", failed)
	}
	shown := clitest.Succeed(t, "run", "list", "--api", api, "--workflow-run", run.ID.String()).Stdout
	for _, want := range []string{"STEP", "each[0]", "each[1]", "rest", "waiting", failed[1].ID.String()} {
		if !strings.Contains(shown, want) {
			t.Errorf("run list --workflow-run has no %q:\n%s", want, shown)
		}
	}
	if got := listedRuns(t, api, "--workflow-run", run.ID.String(), "--step", "rest"); len(got) != 1 || got[0].State != schema.StateWaiting || got[0].Waiting == nil {
		t.Errorf("the run of the step that waits is %+v", got)
	}
}

func TestFlagsOfRunListThatDoNotGoTogether(t *testing.T) {
	id := schema.MakeEntryID(time.Now(), 1, 1).String()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--stuck", "--state", "failed"}, "--state does not go with --stuck"},
		{[]string{"--workflow-run", id, "--from", "-1h"}, "--from does not go with --workflow-run"},
		{[]string{"--workflow-run", id, "--label", "a=b"}, "--label does not go with --workflow-run"},
		{[]string{"--workflow-run", "x"}, "--workflow-run: "},
		{[]string{"--key", "k", "--state", "failed"}, "--state does not go with --key"},
		{[]string{"--key", "k", "--at", "noon"}, "--at: "},
		{[]string{"--at", "1h"}, "--at goes with --key"},
		{[]string{"--key", "k", "--at", "1h", "--from", "0s"}, "--at goes with --key"},
		{[]string{"--newest", "--stuck"}, "--newest does not go with --stuck"},
		{[]string{"--newest", "--from", "1h", "--to", "0s"}, "--from must be before --to"},
		{[]string{"--newest", "--from", "noon"}, "--from: "},
		{[]string{"--key", "k", "--error", "a"}, "--error does not go with --key"},
		{[]string{"--step", "a"}, "--step goes with --workflow-run"},
		{[]string{"--label", "team"}, "--label: "},
		{[]string{"--label", "a=1", "--label", "a=2"}, "--label: "},
		{[]string{"--late", "-1s"}, "--late: "},
		{[]string{"--late", "x"}, `--late: "x" is not a span`},
	} {
		// No API is asked: there is none.
		r := clitest.Run(t.Context(), "", append([]string{"run", "list", "--api", "http://" + closedPort(t)}, row.args...)...)
		if r.Code != 2 || !strings.Contains(r.Stderr, row.want) {
			t.Errorf("run list %q exits %d with %q, want 2 and %q", row.args, r.Code, r.Stderr, row.want)
		}
	}
}
