package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carillon.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const good = "cassandra: {hosts: [127.0.0.1]}\nnats: {urls: ['nats://127.0.0.1:4222']}\n"

func TestFileThenEnvironmentThenFlags(t *testing.T) {
	path := write(t, good+"node: {name: file}\nroles: [bucketer]\nexecutor: {slots: 5, drain_timeout: 5s}\nlog: {level: warn}\n")
	c, err := Load(path, []string{"CARILLON_NODE_NAME=env", "CARILLON_EXECUTOR_ALLOW_CIDRS=10.0.0.0/8,127.0.0.0/8", "CARILLON_LOG_LEVEL=error", "CARILLON_TEST_NATS=x"},
		map[string]any{"log.level": "debug"})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if c.Node.Name != "env" || c.Log.Level != "debug" || !slices.Equal(c.Roles, []string{Bucketer}) {
		t.Errorf("Load: name %q, level %q, roles %q; want env, debug, [bucketer]", c.Node.Name, c.Log.Level, c.Roles)
	}
	if c.Executor.Slots != 5 || c.Executor.DrainTimeout != 5*time.Second || len(c.Prefixes()) != 2 {
		t.Errorf("Load: executor %+v; want 5 slots, 5s, two ranges", c.Executor)
	}
	if c.API.Listen != Default().API.Listen {
		t.Errorf("Load: api.listen %q, want the default %q", c.API.Listen, Default().API.Listen)
	}
}

func TestNoopIsSetByTheEnvironment(t *testing.T) {
	path := write(t, good+"node: {name: file}\n")
	for _, row := range []struct {
		name    string
		environ []string
		want    bool
	}{{"not set", nil, false}, {"set", []string{"CARILLON_EXECUTOR_NOOP=true"}, true}} {
		t.Run(row.name, func(t *testing.T) {
			c, err := Load(path, row.environ, nil)
			if err != nil || c.Executor.Noop != row.want {
				t.Errorf("Load with %q: noop %t, %v, want %t", row.environ, c.Executor.Noop, err, row.want)
			}
		})
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	path := write(t, "node: {nam: x}\nroles: [cook]\nring: {key: short, listen: nowhere}\nexecutor: {slots: 0, allow_cidrs: [all]}\nlog: {level: loud}\n")
	_, err := Load(path, nil, nil)
	if err == nil {
		t.Fatal("Load: no error for a file full of faults")
	}
	for _, key := range []string{"node.nam", "roles", "ring.key", "ring.listen", "executor.slots", "executor.allow_cidrs", "log.level", "cassandra.hosts", "nats.urls"} {
		if !strings.Contains(err.Error(), key+":") {
			t.Errorf("Load: the error does not name %s:\n%v", key, err)
		}
	}
}

func TestNoSecretInFaults(t *testing.T) {
	path := write(t, "nats: {urls: [x]}\nring: {key: 'c2VjcmV0LXRoYXQtaXMtdG9vLXNob3J0'}\ncassandra: {password: hunter2}\n")
	_, err := Load(path, nil, nil)
	if err != nil && (strings.Contains(err.Error(), "c2Vjc") || strings.Contains(err.Error(), "hunter2")) {
		t.Errorf("Load: the error repeats a secret: %v", err)
	}
}
