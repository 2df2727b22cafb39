package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/cmd/internal/node"
)

// mainEnv makes the test program the program itself: some things show only in a process of their own.
const mainEnv = "CARILLON_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// startNode runs a whole system until the test ends, and returns the base URL of its API.
func startNode(t *testing.T) (api string) {
	t.Helper()
	return startNodeIn(t, t.TempDir(), func(*config.Config) {})
}

// startNodeIn is startNode on what lies in dir, with another configuration.
func startNodeIn(t *testing.T, dir string, change func(*config.Config)) (api string) {
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
	code           int
	stdout, stderr string
}

// carillon runs a command line with stdin.
func carillon(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	code := execute(ctx, cmd, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// succeed runs a command line that must exit 0.
func succeed(t *testing.T, args ...string) result {
	t.Helper()
	r := carillon(t.Context(), "", args...)
	if r.code != 0 {
		t.Fatalf("carillon %s exits %d, want 0\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}
