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

// TestExitCode: only the command run for the user passes its code on; a tool that fails on the way is an error of ours.
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
	for _, args := range [][]string{{"status"}, {"kill", "nats-1"}, {"start", "nats-1"}} {
		if _, err := execute(t, append(args, "--dir", dir)...); !errors.Is(err, cluster.ErrNoCluster) {
			t.Errorf("%q without a cluster: %v, want ErrNoCluster", args, err)
		}
	}
	if out, err := execute(t, "down", "--dir", dir); err != nil {
		t.Errorf("down without a cluster: %v, %q; want nil, so that it can be repeated", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("asking about a cluster made its folder")
	}
}
