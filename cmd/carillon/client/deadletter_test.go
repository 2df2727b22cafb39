package client

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// On a whole node: after a failure the dead letter is listed, shown, replayed and discarded, singly
// and by filter.
func TestDeadLettersOfANode(t *testing.T) {
	api := clitest.StartNode(t)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusGone) }))
	defer sink.Close()
	fail := func() string {
		t.Helper()
		id := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL, "--payload", "7", "-o", "json").Stdout).ID.String()
		if run := awaitRun(t, api, id, schema.StateFailed); len(run.Attempts) != 1 {
			t.Errorf("the run has %d attempts, want one: the answer was final", len(run.Attempts))
		}
		return id
	}
	waiting := func(filter ...string) (ids []string) {
		t.Helper()
		for line := range strings.Lines(clitest.Succeed(t, append([]string{"dead-letter", "list", "--api", api, "-o", "json"}, filter...)...).Stdout) {
			ids = append(ids, clitest.Decode[httpapi.DeadLetter](t, line).ID.String())
		}
		return ids
	}
	first := fail()
	clitest.Await(t, "its dead letter", func() bool { return len(waiting()) == 1 })
	if shown := clitest.Succeed(t, "dlq", "list", "--api", api, "--from", "-1h").Stdout; !strings.Contains(shown, first) || !strings.Contains(shown, "410 Gone") {
		t.Errorf("dlq list shows\n%s", shown)
	}
	if shown := clitest.Succeed(t, "dead-letter", "show", "--api", api, first).Stdout; !strings.Contains(shown, first) || !strings.Contains(shown, "waiting") || !strings.Contains(shown, "answered 410 Gone") {
		t.Errorf("dead-letter show shows\n%s", shown)
	}
	letter := clitest.Decode[httpapi.DeadLetter](t, clitest.Succeed(t, "dead-letter", "show", "--api", api, first, "-o", "json").Stdout)
	if string(letter.Payload) != "7" || len(letter.History) != 1 || letter.Outcome != schema.Failed || letter.StatusCode != http.StatusGone {
		t.Errorf("dead-letter show answers %+v, want payload, attempt and the last error", letter)
	}

	run := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "dead-letter", "replay", "--api", api, first, "-o", "json").Stdout)
	if run.Origin.String() != first {
		t.Errorf("dead-letter replay answers a run of origin %s, want %s", run.Origin, first)
	}
	awaitRun(t, api, run.ID.String(), schema.StateFailed) // it is answered as before
	clitest.Await(t, "the dead letter of the replay", func() bool { ids := waiting(); return len(ids) == 1 && ids[0] == run.ID.String() })
	if shown := clitest.Succeed(t, "dead-letter", "show", "--api", api, first).Stdout; !strings.Contains(shown, "replayed as "+run.ID.String()) {
		t.Errorf("dead-letter show after the replay shows\n%s", shown)
	}
	wantFact(t, clitest.Succeed(t, "run", "get", "--api", api, first).Stdout, "replayed as", run.ID.String())
	if shown := clitest.Succeed(t, "run", "get", "--api", api, run.ID.String()).Stdout; strings.Contains(shown, "replayed as") {
		t.Errorf("run get of a dead letter that waits shows\n%s", shown)
	}

	clitest.Succeed(t, "dead-letter", "discard", "--api", api, run.ID.String())
	if ids := waiting(); len(ids) != 0 {
		t.Errorf("after the discard %v wait, want none", ids)
	}
	labelled := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL, "--label", "team=billing", "-o", "json").Stdout).ID.String()
	awaitRun(t, api, labelled, schema.StateFailed)
	other := fail()
	clitest.Await(t, "both dead letters", func() bool { return len(waiting()) == 2 })
	for _, filter := range [][]string{{"--label", "team=billing"}, {"--job", labelled}} {
		if ids := waiting(filter...); len(ids) != 1 || ids[0] != labelled {
			t.Errorf("dead-letter list %v shows %v, want %s alone", filter, ids, labelled)
		}
		counted := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, append([]string{"dead-letter", "replay", "--api", api, "--from", "-1h", "--to", "1h", "--dry-run", "-o", "json"}, filter...)...).Stdout)
		if counted.Matched != 1 || counted.Changed != 0 || len(waiting()) != 2 {
			t.Errorf("dead-letter replay %v --dry-run answers %+v, want one of two", filter, counted)
		}
	}
	if r := clitest.Run(t.Context(), "", "dead-letter", "replay", "--api", api, "--from", "-1h", "--to", "1h", "--label", "team"); r.Code != 1 || !strings.Contains(r.Stderr, "body.filter.label") {
		t.Errorf("dead-letter replay of a label without value exits %d with %q, want 1 and the fault", r.Code, r.Stderr)
	}
	if ids := waiting(); !slices.Contains(ids, other) {
		t.Errorf("%v wait, want %s among them", ids, other)
	}
	op := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, "dead-letter", "discard", "--api", api, "--from", "-1h", "-o", "json").Stdout) // up to now
	if op.State != "done" || op.Matched != 2 || op.Changed != 2 || len(waiting()) != 0 {
		t.Errorf("dead-letter discard of all answers %+v, want both gone", op)
	}
	none := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, "operation", "replay", "--api", api, "--from", "-1h", "--to", "1h", "-o", "json").Stdout)
	if none.State != "done" || none.Matched != 0 {
		t.Errorf("operation replay answers %+v, want nothing met", none)
	}
	for _, args := range []string{
		"dead-letter show", "dead-letter show x", "dead-letter replay x", "dead-letter replay", "dead-letter discard " + first + " --task a",
		"dead-letter replay " + first + " --label a=b", "dead-letter replay " + first + " --error-pattern a", "dead-letter replay " + first + " --error a",
		"dead-letter replay --job a", "dead-letter discard --to 0s", "dead-letter list --limit -1", "dead-letter list --from soon", "operation discard --all",
	} {
		if r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.Code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
	if r := clitest.Run(t.Context(), "", "dead-letter", "show", "--api", api, run.ID.String()); r.Code == 0 {
		t.Errorf("dead-letter show of what was discarded exits 0 with\n%s", r.Stdout)
	}
}

// A filter by task selects only the dead letters of that task.
func TestDeadLettersOfATaskAreReplayedAndDiscarded(t *testing.T) {
	api := clitest.StartNode(t)
	var well atomic.Bool
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			http.Error(w, "no", http.StatusGone)
		}
	}))
	defer sink.Close()
	failed := map[string][]string{}
	for _, task := range []string{"mail", "mails"} {
		clitest.Succeed(t, "task", "set", task, "--api", api, "--url", sink.URL)
		for range 2 {
			id := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--task", task, "-o", "json").Stdout).ID.String()
			awaitRun(t, api, id, schema.StateFailed)
			failed[task] = append(failed[task], id)
		}
	}
	show := func(id string) httpapi.DeadLetter {
		t.Helper()
		return clitest.Decode[httpapi.DeadLetter](t, clitest.Succeed(t, "dead-letter", "show", "--api", api, id, "-o", "json").Stdout)
	}
	waiting := func(args ...string) (n int) {
		t.Helper()
		return strings.Count(clitest.Succeed(t, append([]string{"dead-letter", "list", "--api", api, "-o", "json"}, args...)...).Stdout, "\n")
	}
	clitest.Await(t, "all dead letters", func() bool { return waiting() == 4 })
	well.Store(true)
	// As its help says, a retry leaves the dead letter as it is: below, those of mails wait.
	again := clitest.Decode[httpapi.Run](t, clitest.Succeed(t, "run", "retry", "--api", api, failed["mails"][0], "-o", "json").Stdout)
	awaitRun(t, api, again.ID.String(), schema.StateSucceeded)
	if help := clitest.Succeed(t, "run", "retry", "--help").Stdout; !strings.Contains(help, "dead letter that it has goes on waiting") {
		t.Errorf("run retry --help says\n%s", help)
	}
	act := func(action, task string) httpapi.Operation {
		t.Helper()
		return clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, "dead-letter", action, "--api", api, "--from", "-1h", "--to", "1h", "--task", task, "-o", "json").Stdout)
	}
	if op := act("replay", "mail"); op.State != "done" || op.Matched != 2 || op.Changed != 2 {
		t.Errorf("dead-letter replay --task mail answers %+v, want two changed", op)
	}
	for _, id := range failed["mail"] {
		l := show(id)
		if l.State != "replayed" {
			t.Errorf("dead letter %s of mail is %s, want replayed", id, l.State)
		}
		if run := awaitRun(t, api, l.Replay.String(), schema.StateSucceeded); run.Origin.String() != id || run.Task != "mail" {
			t.Errorf("the replay is of task %q and origin %s, want mail and %s", run.Task, run.Origin, id)
		}
	}
	for _, id := range failed["mails"] {
		if l := show(id); l.State != "waiting" {
			t.Errorf("dead letter %s of mails is %s, want waiting", id, l.State)
		}
	}
	if op := act("discard", "mail"); op.State != "done" || op.Matched != 0 || waiting() != 2 {
		t.Errorf("dead-letter discard --task mail answers %+v, and %d wait; want nothing met, and two", op, waiting())
	}
	if op := act("discard", "mails"); op.State != "done" || op.Matched != 2 || op.Changed != 2 || waiting() != 0 {
		t.Errorf("dead-letter discard --task mails answers %+v, and %d wait; want two changed, and none", op, waiting())
	}
}

// Dead letters are picked by a word of what the callee answered, which their error_pattern leaves
// out, also where what is stored of them is encrypted.
func TestDeadLettersWithAText(t *testing.T) {
	for name, encrypted := range map[string]bool{"clear": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			api := clitest.StartNodeIn(t, t.TempDir(), func(c *config.Config) {
				c.Secrets.Keys = []string{"k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
			})
			if encrypted {
				clitest.Succeed(t, "tenant", "set", "default", "--api", api, "--encrypt-payloads")
			}
			sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Error(w, `{"error": "`+r.URL.Query().Get("say")+`"}`, http.StatusGone)
			}))
			defer sink.Close()
			for _, say := range []string{"Card+declined", "database+timeout", "card+declined"} {
				id := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "--url", sink.URL+"/?say="+say, "-o", "json").Stdout).ID.String()
				awaitRun(t, api, id, schema.StateFailed)
			}
			waiting := func(args ...string) (n int) {
				t.Helper()
				return strings.Count(clitest.Succeed(t, append([]string{"dead-letter", "list", "--api", api, "-o", "json"}, args...)...).Stdout, "\n")
			}
			clitest.Await(t, "all dead letters", func() bool { return waiting() == 3 })
			if n, same := waiting("--error", "card DECLINED"), waiting("--error-pattern", "answered 410 Gone"); n != 2 || same != 3 {
				t.Errorf("dead-letter list --error shows %d, and %d of one pattern; want 2 and 3", n, same)
			}
			if shown := clitest.Succeed(t, "dead-letter", "list", "--api", api, "--error", "database").Stdout; strings.Count(shown, "\n") != 2 || !strings.Contains(shown, "database timeout") {
				t.Errorf("dead-letter list --error database shows\n%s", shown)
			}
			act := func(args ...string) (httpapi.Operation, string) {
				t.Helper()
				done := clitest.Succeed(t, append(args, "--api", api, "--from", "-1h", "-o", "json")...)
				return clitest.Decode[httpapi.Operation](t, done.Stdout), done.Stderr
			}
			const hint = "dead-letter list -o json"
			if op, said := act("dead-letter", "discard", "--error-pattern", "card declined"); op.Matched != 0 || !strings.Contains(said, hint) {
				t.Errorf("dead-letter discard of no pattern matches %d and says %q, want the hint", op.Matched, said)
			}
			if said := clitest.Succeed(t, "dead-letter", "list", "--api", api, "--error-pattern", "card declined").Stderr; !strings.Contains(said, hint) {
				t.Errorf("dead-letter list of no pattern says %q, want the hint", said)
			}
			if op, said := act("dead-letter", "replay", "--error", "timeout", "--dry-run"); op.Matched != 1 || strings.Contains(said, hint) {
				t.Errorf("dead-letter replay --error --dry-run answers %+v and says %q, want one matched and no hint", op, said)
			}
			if op, _ := act("operation", "discard", "--error", "card declined"); op.Matched != 2 || op.Changed != 2 || waiting() != 1 || waiting("--error", "database timeout") != 1 {
				t.Errorf("operation discard --error answers %+v, and %d wait; want two gone and one left", op, waiting())
			}
			if shown := clitest.Succeed(t, "operation", "list", "--api", api, "--limit", "1").Stdout; !strings.Contains(shown, "error with card declined") {
				t.Errorf("operation list shows\n%s", shown)
			}
			for _, args := range [][]string{{"discard", "--from", "-1h", "--error", ""}, {"replay", "--from", "-1h", "--error-pattern", ""}} {
				if r := clitest.Run(t.Context(), "", append([]string{"dead-letter", "--api", api}, args...)...); r.Code != 2 || waiting() != 1 {
					t.Errorf("dead-letter %q exits %d with %q, and %d wait; want 2, and nothing done", args, r.Code, r.Stderr, waiting())
				}
			}
		})
	}
}

// wantFact looks for a line of a fact and its value.
func wantFact(t *testing.T, shown, name, value string) {
	t.Helper()
	for line := range strings.Lines(shown) {
		if strings.Join(strings.Fields(line), " ") == name+" "+value {
			return
		}
	}
	t.Errorf("no line says %q %q:\n%s", name, value, shown)
}

// Runs that repeat runs of a job are listed with it, by whatever command.
func TestReplaysAreListedWithTheirJob(t *testing.T) {
	api := clitest.StartNode(t)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusGone) }))
	defer sink.Close()
	clitest.Succeed(t, "job", "create", "--api", api, "--name", "dl", "--url", sink.URL)
	run := func(args ...string) schema.RunID {
		t.Helper()
		return clitest.Decode[httpapi.Run](t, clitest.Succeed(t, append(args, "--api", api, "-o", "json")...).Stdout).ID
	}
	first := run("job", "trigger", "dl")
	awaitRun(t, api, first.String(), schema.StateFailed)
	clitest.Await(t, "its dead letter", func() bool {
		return strings.Contains(clitest.Succeed(t, "dead-letter", "list", "--api", api, "--job", "dl").Stdout, first.String())
	})
	replay := run("dead-letter", "replay", first.String())
	awaitRun(t, api, replay.String(), schema.StateFailed)
	retry := run("run", "retry", replay.String())
	awaitRun(t, api, retry.String(), schema.StateFailed)
	want := []schema.RunID{retry, replay, first}
	slices.SortFunc(want, func(a, b schema.RunID) int { return b.Compare(a) }) // all may be of one millisecond
	for _, args := range []string{"job runs dl", "job runs dl --state failed", "run list --job dl", "run list --job dl --newest", "run list --job dl --state failed --error gone"} {
		var got []schema.RunID
		for line := range strings.Lines(clitest.Succeed(t, append(strings.Fields(args), "--api", api, "-o", "json")...).Stdout) {
			r := clitest.Decode[httpapi.Run](t, line)
			if got = append(got, r.ID); r.JobName != "dl" || (r.ID == first) != (r.ReplayedAs == replay) {
				t.Errorf("%s shows run %s of the job %q, replayed as %s", args, r.ID, r.JobName, r.ReplayedAs)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", args, got, want)
		}
	}
}
