package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// The environment by which the tests of one run share what was started for all of them.
const (
	CassandraEnv = "CARILLON_TEST_CASSANDRA" // "ip:port" of one node
	NATSEnv      = "CARILLON_TEST_NATS"      // URL of one server
)

// TestEnv returns the environment ("NAME=value") that makes Cassandra and NATS answer with this
// cluster's first servers.
func (c *Cluster) TestEnv() []string {
	var env []string
	if addrs := c.CQL(); len(addrs) > 0 {
		env = append(env, CassandraEnv+"="+addrs[0])
	}
	if urls := c.NATSURLs(); len(urls) > 0 {
		env = append(env, NATSEnv+"="+urls[0])
	}
	return env
}

// testStartLimit bounds the start of a test's cluster, the first making of the cache included.
const testStartLimit = 10 * time.Minute

// Require skips the test if this machine cannot run a Cassandra, in words that say what is left
// out. With CI=true it fails instead: there nothing may be left out.
func Require(tb testing.TB) {
	tb.Helper()
	err := Available()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("real Cassandra is required where CI=true: %v", err)
	}
	tb.Skipf("LEFT OUT: %s needs a real Cassandra: %v", tb.Name(), err)
}

// Start brings up a cluster of the test's own and stops it when the test ends; should the test
// program die first, the kernel kills the members. The test is skipped or failed as Require says if
// it needs Cassandra and there is none.
func Start(tb testing.TB, spec Spec) *Cluster {
	tb.Helper()
	if spec.Cassandra > 0 {
		Require(tb)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), testStartLimit)
	defer cancel()
	c, err := Up(ctx, Options{Dir: tb.TempDir(), Attached: true, Say: func(line string) { tb.Log(line) }}, spec)
	if err != nil {
		tb.Fatalf("start cluster %+v: %v", spec, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for _, m := range c.plan.members() {
				tb.Logf("end of the log of %s:\n%s", m.name(), logTail(c.logFile(m)))
			}
		}
		if err := c.Close(context.Background()); err != nil {
			tb.Errorf("stop cluster: %v", err)
		}
	})
	return c
}

// Cassandra returns the address ("ip:port") of a Cassandra node (profile test, periodic commit log,
// data centre dc1) that the test shares with others: the one of CassandraEnv, else one for all
// tests of a package that uses Main, else one of its own. Tests keep out of each other's way by
// their own tenants, not by their own keyspaces.
func Cassandra(tb testing.TB) string {
	tb.Helper()
	if addr := os.Getenv(CassandraEnv); addr != "" {
		return addr
	}
	Require(tb)
	return shared(tb, &sharedCassandra, Spec{Cassandra: 1}).CQL()[0]
}

// NATS returns the URL of a NATS server with JetStream on file, shared like that of Cassandra: by
// NATSEnv, else within a package that uses Main, else not. Tests use streams and subjects of their
// own.
func NATS(tb testing.TB) string {
	tb.Helper()
	if url := os.Getenv(NATSEnv); url != "" {
		return url
	}
	return shared(tb, &sharedNATS, Spec{NATS: 1}).NATSURLs()[0]
}

// A sharedCluster is started by the first test that asks for it and stopped by Main.
type sharedCluster struct {
	mu      sync.Mutex
	dir     string
	cluster *Cluster
}

var (
	inMain                      bool // set before any test runs
	sharedCassandra, sharedNATS sharedCluster
)

func shared(tb testing.TB, s *sharedCluster, spec Spec) *Cluster {
	tb.Helper()
	if !inMain {
		return Start(tb, spec)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != nil {
		return s.cluster
	}
	dir, err := os.MkdirTemp("", "carillon-test-*") //nolint:usetesting // it outlives the test that asks first
	if err != nil {
		tb.Fatalf("make folder for shared cluster: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testStartLimit)
	defer cancel()
	c, err := Up(ctx, Options{Dir: dir, Attached: true, Say: func(line string) { tb.Log(line) }}, spec)
	if err != nil {
		tb.Fatalf("start shared cluster %+v: %v", spec, errors.Join(err, os.RemoveAll(dir)))
	}
	s.dir, s.cluster = dir, c
	return c
}

func (s *sharedCluster) stop() error {
	var err error
	if s.cluster != nil {
		err = s.cluster.Close(context.Background())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// A TestRun is a package's tests with what they share; see Main.
type TestRun struct{ m *testing.M }

// Main wraps the tests of a package so that Cassandra and NATS start at most one process each for
// all of them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(cluster.Main(m)) }
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m).Run()) }
func Main(m *testing.M) TestRun { return TestRun{m} }

// Run runs the tests, stops what they shared, and returns the exit code.
func (r TestRun) Run() int {
	inMain = true
	code := r.m.Run()
	if err := errors.Join(sharedCassandra.stop(), sharedNATS.stop()); err != nil {
		fmt.Fprintln(os.Stderr, "stop shared cluster:", err)
		return max(code, 1)
	}
	return code
}
