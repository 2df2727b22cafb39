package client

import (
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestOperationsOnAllThatMatch(t *testing.T) {
	api := clitest.StartNode(t)
	for _, name := range []string{"a-1", "a-2", "b-1"} {
		clitest.Succeed(t, "job", "create", "--api", api, "--subject", "s", "--name", name, "--every", "1000h")
	}
	states := func() string {
		t.Helper()
		var all []string
		for line := range strings.Lines(clitest.Succeed(t, "job", "list", "--api", api, "-o", "json").Stdout) {
			j := clitest.Decode[httpapi.Job](t, line)
			all = append(all, j.Name+" "+j.State)
		}
		return strings.Join(all, ", ")
	}
	dry := clitest.Succeed(t, "operation", "cancel", "--api", api, "--all", "--dry-run")
	if !strings.Contains(dry.Stderr, "3 match") || !strings.Contains(dry.Stdout, "cancel (dry run)") {
		t.Errorf("operation cancel --dry-run says %q and prints\n%s", dry.Stderr, dry.Stdout)
	}
	op := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, "operation", "pause", "--api", api, "--name-prefix", "a-", "-o", "json").Stdout)
	if op.State != "done" || op.Matched != 2 || op.Changed != 2 {
		t.Errorf("operation pause answers %+v, want 2 changed", op)
	}
	if got, want := states(), "b-1 active, a-2 paused, a-1 paused"; got != want {
		t.Errorf("after the pause: %s, want %s", got, want)
	}
	if shown := clitest.Succeed(t, "operation", "get", "--api", api, op.ID.String()).Stdout; !strings.Contains(shown, "pause") || !strings.Contains(shown, "done") {
		t.Errorf("operation get shows\n%s", shown)
	}
	var listed []string
	for line := range strings.Lines(clitest.Succeed(t, "operation", "list", "--api", api, "-o", "json").Stdout) {
		listed = append(listed, clitest.Decode[httpapi.Operation](t, line).Action)
	}
	if got := strings.Join(listed, " "); got != "pause cancel" {
		t.Errorf("operation list has %q, want the pause and the dry run before it", got)
	}
	if shown := clitest.Succeed(t, "operation", "list", "--api", api, "--state", "done", "--limit", "1").Stdout; !strings.Contains(shown, op.ID.String()) || !strings.Contains(shown, "name a-") {
		t.Errorf("operation list --limit 1 shows\n%s", shown)
	}
	if shown := clitest.Succeed(t, "operation", "list", "--api", api, "--state", "running").Stdout; strings.Contains(shown, "pause") {
		t.Errorf("operation list --state running shows\n%s", shown)
	}
	clitest.Succeed(t, "job", "create", "--api", api, "--subject", "s", "--in", "30m")
	runs := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, "operation", "cancel", "--api", api, "--from", "29m", "--to", "31m", "--state", "pending", "-o", "json").Stdout)
	if runs.Matched != 1 || runs.Changed != 1 {
		t.Errorf("operation cancel of runs answers %+v, want one", runs)
	}
	retried := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, "operation", "retry", "--api", api, "--from", "29m", "--to", "31m", "--state", "cancelled", "-o", "json").Stdout)
	if retried.State != "done" || retried.Matched != 0 { // it was due after the operation began
		t.Errorf("operation retry answers %+v, want nothing met", retried)
	}
	for i, labels := range []string{"team=a", "team=a", "team=b"} {
		args := []string{"job", "create", "--api", api, "--subject", "s", "--in", "30m", "--label", labels}
		if i == 0 {
			args = append(args, "--idempotency-key", "k-1")
		}
		clitest.Succeed(t, args...)
	}
	for _, row := range []struct {
		args string
		want int64
	}{
		{"--label team=a", 2}, {"--label team=a --key k-1", 1}, {"--label team=a --label team=a --state pending,retrying", 2}, {"--job a-1", 0}, {"--late 0s", 0}, {"--host x.test", 0}, {"--label team=b --key k-1", 0},
	} {
		args := append([]string{"operation", "cancel", "--api", api, "--from", "29m", "--to", "31m", "--dry-run", "-o", "json"}, strings.Fields(row.args)...)
		if op := clitest.Decode[httpapi.Operation](t, clitest.Succeed(t, args...).Stdout); op.Matched != row.want {
			t.Errorf("carillon operation cancel %s matches %d, want %d", row.args, op.Matched, row.want)
		}
	}
	if shown := clitest.Succeed(t, "operation", "list", "--api", api, "--limit", "4").Stdout; !strings.Contains(shown, "job a-1") || !strings.Contains(shown, "late by more than 0s") {
		t.Errorf("operation list shows\n%s", shown)
	}
	for _, args := range []string{
		"operation cancel", "operation cancel x", "operation cancel 01932e5a-7c00-7003-8d2f-5a1b9c3e7f60 --all", "operation pause --all --label a=b", "operation retry", "operation get x", "operation list x", "operation list --limit -1", "operation cancel --from soon --to 1h", "operation retry --all",
	} {
		if r := clitest.Run(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.Code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.Code, r.Stderr)
		}
	}
}
