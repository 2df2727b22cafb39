package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
)

// MainEnv makes the test program the program itself. Some things show only in a process of their
// own.
const MainEnv = "CARILLON_TEST_MAIN"

// newRoot makes the command tree that the tests of a package run.
var newRoot func() *cobra.Command

// Main is the TestMain of a package: tests run the command tree of root. The test program is the
// program itself, and runs main, if a test started it with mainEnv.
func Main(m *testing.M, root func() *cobra.Command, main func()) {
	if os.Getenv(MainEnv) != "" {
		main()
		return
	}
	newRoot = root
	goleak.VerifyTestMain(m)
}

// StartNode runs a whole node until the test ends, and returns the base URL of its API.
func StartNode(t *testing.T) (api string) {
	t.Helper()
	return StartNodeIn(t, t.TempDir(), func(*config.Config) {})
}

// StartNodeIn is startNode with the data in dir, and with another configuration.
func StartNodeIn(t *testing.T, dir string, change func(*config.Config)) (api string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Node.Name = "test"
	cfg.Executor.AllowCIDRs = []string{"127.0.0.0/8"}
	change(&cfg)
	reg := prometheus.NewRegistry()
	log := slog.New(slog.DiscardHandler)
	ready := make(chan string, 1)
	n := node.New(cfg, node.Options{
		Opener: node.Embedded(cfg, node.Place{Dir: dir}, "test", log, reg), Version: "test", Registry: reg,
		Listener: l.(*net.TCPListener), Ready: func(api string) { ready <- api },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run of the node = %v, want nil", err)
		}
	})
	select {
	case api := <-ready:
		return api
	case err := <-ended:
		ended <- err
		t.Fatalf("the node ended before it was up: %v", err)
		return ""
	}
}

// result is what a command left behind.
type result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs a command line with stdin.
func Run(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	code := cli.Execute(ctx, cmd, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// Succeed runs a command line that must exit 0.
func Succeed(t *testing.T, args ...string) result {
	t.Helper()
	r := Run(t.Context(), "", args...)
	if r.Code != 0 {
		t.Fatalf("carillon %s exits %d, want 0\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// Decode decodes JSON.
func Decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decode %.200q: %v", text, err)
	}
	return v
}

// Await asks until it holds.
func Await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
