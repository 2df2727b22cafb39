package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
)

func TestLogsAreSearchedFor(t *testing.T) {
	api := clitest.StartNode(t)
	sink := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(sink.Close)
	var ids []string
	for _, team := range []string{"team=a", "team=b"} {
		job := clitest.Decode[httpapi.Job](t, clitest.Succeed(t, "job", "create", "--api", api, "-o", "json", "--url", sink.URL, "--label", team).Stdout)
		ids = append(ids, job.ID.String())
		awaitRun(t, api, job.ID.String(), schema.StateFailed)
	}
	for name, row := range map[string]struct {
		args string
		want []string // ids of runs whose errors are found, the first first
	}{
		"all":            {"--limit 0", ids},
		"a text":         {"--text ANSWERED", ids},
		"a text of none": {"--text none", nil},
		"a label":        {"--label team=b", ids[1:]},
		"a run":          {"--run " + ids[0], ids[:1]},
		"lines":          {"--kind line", nil},
		"two days":       {"--from -48h --text answered", ids},
		"before then":    {"--from -2h --to -1h", nil},
	} {
		out := clitest.Succeed(t, append([]string{"logs", "--api", api, "-o", "json"}, strings.Fields(row.args)...)...)
		found := map[string]bool{}
		for line := range strings.Lines(out.Stdout) {
			l := clitest.Decode[httpapi.FoundLine](t, line)
			if found[l.RunID.String()] = true; l.Kind != logs.ErrorKind || !strings.Contains(l.Text, "404") || l.Attempt != 1 {
				t.Errorf("%s: logs %s finds %+v", name, row.args, l)
			}
		}
		for _, id := range row.want {
			if !found[id] {
				t.Errorf("%s: logs %s does not find run %s", name, row.args, id)
			}
		}
		if len(found) != len(row.want) || !strings.Contains(out.Stderr, "Looked at ") {
			t.Errorf("%s: logs %s finds %d runs, and says %q; want %d, and what was looked at", name, row.args, len(found), out.Stderr, len(row.want))
		}
	}
	if out := clitest.Succeed(t, "logs", "--api", api, "--limit", "1"); strings.Count(out.Stdout, "\n") != 1 || !strings.Contains(out.Stdout, "attempt 1 failed: answered 404") || !strings.Contains(out.Stderr, "There are more") {
		t.Errorf("logs --limit 1 prints %q and %q", out.Stdout, out.Stderr)
	}
	if out := clitest.Succeed(t, "logs", "--api", api, "--follow", "--run", ids[0]); strings.Count(out.Stdout, "\n") != 1 || out.Stderr != "" {
		t.Errorf("logs --follow of a run that has ended prints %q and %q", out.Stdout, out.Stderr)
	}
	for args, want := range map[string]string{
		"--kind warning":                 `--kind: "warning" is neither line nor error`,
		"--from 1h --to 0s":              "--from must be before --to",
		"--follow --to 0s":               "--to does not go with --follow",
		"--limit -1":                     "--limit: -1 is negative",
		"--label a":                      "--label:",
		"--from someday":                 "--from:",
		"--task none":                    "there is no task of this name",
		"--run x --job none --label a=b": "query.run",
	} {
		r := clitest.Run(t.Context(), "", append([]string{"logs", "--api", api}, strings.Fields(args)...)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("logs %s exits %d with %q, want %q", args, r.Code, r.Stderr, want)
		}
	}
}
