package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

// tourOf returns the command lines of a section of README.md that call the program, in words and
// without its name.
func tourOf(t *testing.T, section string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n### "+section+"\n")
	if !found {
		t.Fatalf("README.md has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n##")
	var lines [][]string
	for line := range strings.Lines(rest) {
		if command, ok := strings.CutPrefix(line, "    .local/bin/carillon "); ok {
			lines = append(lines, wordsOf(command))
		}
	}
	return lines
}

// wordsOf splits a command line as a shell does, as far as README.md needs it: words, text between
// single quotes, a comment.
func wordsOf(line string) (words []string) {
	quoted := false
	word, begun := "", false
	for _, r := range strings.TrimSpace(line) + " " {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case quoted || r != ' ' && (r != '#' || begun):
			word, begun = word+string(r), true
		case r == '#':
			return words
		case begun:
			words, word, begun = append(words, word), "", false
		}
	}
	return words
}

func TestWordsOf(t *testing.T) {
	got := wordsOf("workflow run w --payload '{\"a\": \"b # c\"}' --wait   # it's late\n")
	if want := []string{"workflow", "run", "w", "--payload", `{"a": "b # c"}`, "--wait"}; !slices.Equal(got, want) {
		t.Errorf("words = %q, want %q", got, want)
	}
}

// The commands of README.md about workflows do what it says.
func TestTourOfWorkflows(t *testing.T) {
	api, s := clitest.StartNode(t), newServices(t)
	var did []string
	for _, words := range tourOf(t, "Workflows") {
		for i, word := range words {
			if base, ok := strings.CutPrefix(word, "deploy/examples/"); ok {
				words[i] = s.example(t, strings.TrimSuffix(base, ".yaml"))
			}
		}
		did = append(did, strings.Join(words[:2], " "))
		want := 0
		switch {
		case slices.Contains(words, "saga") && slices.Contains(words, "--wait"):
			want = 1 // it fails, as it should
		case words[0] == "event": // by then the run waits
			approval := latestRun(t, api, "approval")
			clitest.Await(t, "the approval waits", func() bool { return getRun(t, api, approval).State == "waiting" })
		}
		if r := clitest.Run(t.Context(), "", append(words, "--api", api)...); r.Code != want {
			t.Errorf("carillon %s exits %d, want %d\n%s%s", strings.Join(words, " "), r.Code, want, r.Stdout, r.Stderr)
		}
	}
	for _, want := range []string{"workflow apply", "workflow run", "event publish"} {
		if !slices.Contains(did, want) {
			t.Errorf("the tour has the commands %q, want %s among them", did, want)
		}
	}
	for name, want := range map[string]schema.State{"etl": schema.StateSucceeded, "approval": schema.StateSucceeded, "saga": schema.StateFailed} {
		id := latestRun(t, api, name)
		clitest.Await(t, name+" ends", func() bool { run := getRun(t, api, id); return run.State.Terminal() })
		if run := getRun(t, api, id); run.State != want {
			t.Errorf("the run of %s has %s, want %s", name, run.State, want)
		}
	}
	if calls := s.Calls(); len(calls) != 18 {
		t.Errorf("the steps made %d calls, want 18:\n%+v", len(calls), calls)
	}
}

// What README.md says of recurring jobs is done as it stands there.
func TestTourOfRecurringJobs(t *testing.T) {
	api := clitest.StartNode(t)
	did := 0
	for _, words := range tourOf(t, "Recurring jobs") {
		for i, word := range words {
			words[i] = strings.Replace(word, "http://127.0.0.1:8080", api, 1)
		}
		did++
		if r := clitest.Run(t.Context(), "", append(words, "--api", api)...); r.Code != 0 {
			t.Errorf("carillon %s exits %d\n%s%s", strings.Join(words, " "), r.Code, r.Stdout, r.Stderr)
		}
	}
	if did < 15 {
		t.Errorf("the tour has %d commands, want all of them", did)
	}
}

// latestRun returns the id of the latest run of a workflow that was asked for.
func latestRun(t *testing.T, api, name string) string {
	t.Helper()
	for line := range strings.Lines(clitest.Succeed(t, "workflow", "runs", "--api", api, name, "-o", "json").Stdout) {
		if run := clitest.Decode[httpapi.Run](t, line); run.Trigger == schema.TriggerManual {
			return run.ID.String()
		}
	}
	t.Fatalf("no run of %s was asked for", name)
	return ""
}
