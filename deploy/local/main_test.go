package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/deploy/local/cluster"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// execute runs the command line with args and returns what it prints and its error.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestExitCode: only the command run for the user passes its code on; a tool that fails on the way
// is an error of ours.
func TestExitCode(t *testing.T) {
	t.Setenv("JAVA_HOME", t.TempDir())
	t.Setenv("CI", "")
	out, err := execute(t, "exec", "--nats", "0", "--", "/bin/sh", "-c", "exit 7")
	if code := exitCode(err); code != 7 {
		t.Errorf("exec of a command that exits with 7: code %d (%v), want 7", code, err)
	}
	if !strings.Contains(out, "LEFT OUT: ") {
		t.Errorf("exec without Java prints %q, want a line LEFT OUT", out)
	}
	t.Setenv("CI", "true")
	if _, err := execute(t, "exec", "--", "/bin/true"); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("exec without Java in CI: %v, want ErrUnavailable", err)
	}
	if code := exitCode(exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 7").Run()); code != 1 {
		t.Errorf("code of a tool's failure: %d, want 1", code)
	}
}

func TestWithoutCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"status"}, {"kill", "nats-1"}, {"start", "nats-1"}, {"kill", "eu/nats-1"}, {"cut", "eu", "us"}, {"heal"}, {"delay", "80ms"}} {
		_, err := execute(t, append(args, "--dir", dir)...)
		if !errors.Is(err, cluster.ErrNoCluster) {
			t.Fatalf("%q without a cluster: %v, want ErrNoCluster", args, err)
		}
		if said, code := errorText(err), exitCode(err); said != "no cluster: make up starts one" || code != 1 {
			t.Errorf("%q without a cluster says %q with code %d, want that there is none and what starts one, with 1", args, said, code)
		}
	}
	if out, err := execute(t, "down", "--dir", dir); err != nil {
		t.Errorf("down without a cluster: %v, %q; want nil, so that it can be repeated", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("asking about a cluster made its folder")
	}
}

// TestReportNamesEveryRegion: where it is asked, and what its jobs may call.
func TestReportNamesEveryRegion(t *testing.T) {
	region := func(name, api string) cluster.RegionStatus {
		return cluster.RegionStatus{Name: name, Status: cluster.Status{Carillon: []cluster.MemberStatus{{Name: "carillon-1", State: cluster.Running, Roles: []string{"bucketer"}, API: api}}}}
	}
	var out bytes.Buffer
	if err := report(&out, cluster.RegionsStatus{Host: "10.79.0.1", Regions: []cluster.RegionStatus{region("eu", "http://a"), region("us", "http://b"), {Name: "witness"}}}); err != nil {
		t.Fatal(err)
	}
	const want = "\n\nregion eu: API http://a (no key), its jobs may call 10.79.0.1\nregion us: API http://b (no key), its jobs may call 10.79.0.1\n\nexport CARILLON_API=http://a\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("report is\n%s\nwant it to end with\n%s", out.String(), want)
	}
}

// TestReportEndsWithTheAPI: the last line is for the user's shell.
func TestReportEndsWithTheAPI(t *testing.T) {
	node := func(api string, roles ...string) cluster.MemberStatus {
		return cluster.MemberStatus{Name: "carillon", State: cluster.Running, Roles: roles, API: api}
	}
	for name, row := range map[string]struct {
		nodes []cluster.MemberStatus
		want  string // the last line; "" = none for the shell
	}{
		"all roles":                      {[]cluster.MemberStatus{node("http://127.0.0.1:18081", "bucketer", "executor"), node("http://127.0.0.1:18082", "bucketer")}, "http://127.0.0.1:18081"},
		"the first takes nothing in":     {[]cluster.MemberStatus{node("http://127.0.0.1:18081", "executor"), node("http://127.0.0.1:18082", "bucketer")}, "http://127.0.0.1:18082"},
		"no node":                        {nil, ""},
		"no node with the role bucketer": {[]cluster.MemberStatus{node("http://127.0.0.1:18081", "executor")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := report(&out, cluster.Status{Carillon: row.nodes}); err != nil {
				t.Fatal(err)
			}
			want := "\nexport CARILLON_API=" + row.want + "\n"
			if got := strings.HasSuffix(out.String(), want); got != (row.want != "") || strings.Contains(out.String(), "export") != (row.want != "") {
				t.Errorf("report is\n%s\nwant it to end with %q (if there is an API)", out.String(), want)
			}
		})
	}
}
