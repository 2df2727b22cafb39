package main

import (
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/httpapi"
)

func TestOperationsOnAllThatMatch(t *testing.T) {
	api := startNode(t)
	for _, name := range []string{"a-1", "a-2", "b-1"} {
		succeed(t, "job", "create", "--api", api, "--subject", "s", "--name", name, "--every", "1000h")
	}
	states := func() string {
		t.Helper()
		var all []string
		for line := range strings.Lines(succeed(t, "job", "list", "--api", api, "-o", "json").stdout) {
			j := decode[httpapi.Job](t, line)
			all = append(all, j.Name+" "+j.State)
		}
		return strings.Join(all, ", ")
	}
	dry := succeed(t, "operation", "cancel", "--api", api, "--all", "--dry-run")
	if !strings.Contains(dry.stderr, "3 match") || !strings.Contains(dry.stdout, "cancel (dry run)") {
		t.Errorf("operation cancel --dry-run says %q and prints\n%s", dry.stderr, dry.stdout)
	}
	op := decode[httpapi.Operation](t, succeed(t, "operation", "pause", "--api", api, "--name-prefix", "a-", "-o", "json").stdout)
	if op.State != "done" || op.Matched != 2 || op.Changed != 2 {
		t.Errorf("operation pause answers %+v, want 2 changed", op)
	}
	if got, want := states(), "b-1 active, a-2 paused, a-1 paused"; got != want {
		t.Errorf("after the pause: %s, want %s", got, want)
	}
	if shown := succeed(t, "operation", "get", "--api", api, op.ID.String()).stdout; !strings.Contains(shown, "pause") || !strings.Contains(shown, "done") {
		t.Errorf("operation get shows\n%s", shown)
	}
	succeed(t, "job", "create", "--api", api, "--subject", "s", "--in", "30m")
	runs := decode[httpapi.Operation](t, succeed(t, "operation", "cancel", "--api", api, "--from", "29m", "--to", "31m", "--state", "pending", "-o", "json").stdout)
	if runs.Matched != 1 || runs.Changed != 1 {
		t.Errorf("operation cancel of runs answers %+v, want one", runs)
	}
	retried := decode[httpapi.Operation](t, succeed(t, "operation", "retry", "--api", api, "--from", "29m", "--to", "31m", "--state", "cancelled", "-o", "json").stdout)
	if retried.State != "done" || retried.Matched != 0 { // it was due after the operation began
		t.Errorf("operation retry answers %+v, want nothing met", retried)
	}
	for _, args := range []string{
		"operation cancel", "operation cancel x", "operation cancel 01932e5a-7c00-7003-8d2f-5a1b9c3e7f60 --all", "operation pause --all --label a=b", "operation retry", "operation get x", "operation cancel --from soon --to 1h", "operation retry --all",
	} {
		if r := carillon(t.Context(), "", append(strings.Fields(args), "--api", api)...); r.code != 2 {
			t.Errorf("carillon %s exits %d with %q, want 2", args, r.code, r.stderr)
		}
	}
}
