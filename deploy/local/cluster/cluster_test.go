package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(parentEnv); mode != "" {
		parent(mode)
	}
	goleak.VerifyTestMain(Main(m))
}

// query asks a node, failing the test on an error.
func query(t *testing.T, addr, statement string) [][][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	rows, err := queryNode(ctx, addr, nil, statement)
	if err != nil {
		t.Fatalf("queryNode(%s, %q): %v", addr, statement, err)
	}
	return rows
}

// TestLifeOfMembers takes one real Cassandra node and one real NATS server through a kill, a
// restart, a freeze and a thaw, and looks whether what they acknowledged is there after.
func TestLifeOfMembers(t *testing.T) {
	c := Start(t, Spec{Cassandra: 1, NATS: 1, CommitLog: CommitLogGroup})
	ctx := t.Context()
	addr := c.CQL()[0]

	query(t, addr, "CREATE KEYSPACE life WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}")
	query(t, addr, "CREATE TABLE life.rows (id int PRIMARY KEY, word text)")
	for i := range 100 {
		query(t, addr, fmt.Sprintf("INSERT INTO life.rows (id, word) VALUES (%d, 'word-%d')", i, i))
	}
	publish(t, c.NATSURLs()[0], 1, 100)

	before := c.Status()
	for _, name := range []string{"cassandra-1", "nats-1"} {
		if err := c.Kill(ctx, name); err != nil {
			t.Fatalf("Kill(%s): %v", name, err)
		}
	}
	if s := c.Status(); s.Cassandra[0].State != Stopped || s.NATS[0].State != Stopped || s.Cassandra[0].PID != 0 {
		t.Fatalf("after Kill: Status() = %+v, want both stopped, pid 0", s)
	}
	if err := c.Kill(ctx, "cassandra-1"); err == nil {
		t.Error("Kill of a stopped member: no error")
	}
	for _, name := range []string{"cassandra-1", "nats-1"} {
		if err := c.StartMember(ctx, name); err != nil {
			t.Fatalf("StartMember(%s): %v", name, err)
		}
	}
	after := c.Status()
	if after.Cassandra[0].CQL != before.Cassandra[0].CQL || after.NATS[0].URL != before.NATS[0].URL {
		t.Errorf("after a restart: Status() = %+v, want the addresses of %+v", after, before)
	}
	if after.Cassandra[0].PID == before.Cassandra[0].PID {
		t.Errorf("after a restart: pid %d, want another one", after.Cassandra[0].PID)
	}
	if rows := query(t, addr, "SELECT id, word FROM life.rows"); len(rows) != 100 {
		t.Errorf("after a kill: %d rows, want the 100 acknowledged ones", len(rows))
	}
	if n := stored(t, c.NATSURLs()[0]); n != 100 {
		t.Errorf("after a kill: %d messages, want the 100 acknowledged ones", n)
	}

	if err := c.Stop(ctx, "nats-1"); err != nil {
		t.Fatalf("Stop(nats-1): %v", err)
	}
	if s := c.Status(); s.NATS[0].State != Stopped || s.Cassandra[0].State != Running {
		t.Fatalf("after Stop(nats-1): Status() = %+v, want that stopped and Cassandra running", s)
	}
	if err := c.Stop(ctx, "nats-1"); err == nil {
		t.Error("Stop of a stopped member: no error")
	}
	if err := c.StartMember(ctx, "nats-1"); err != nil {
		t.Fatalf("StartMember(nats-1): %v", err)
	}
	if err := c.StartMember(ctx, "cassandra-1"); err == nil {
		t.Error("StartMember of a running member: no error")
	}

	if err := c.Freeze(ctx, "cassandra-1"); err != nil {
		t.Fatalf("Freeze: %v", err)
	}
	if s := c.Status(); s.Cassandra[0].State != Frozen {
		t.Errorf("after Freeze: Status() = %+v, want frozen", s)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := queryNode(short, addr, nil, "SELECT id FROM life.rows"); err == nil {
		t.Error("a frozen node answered")
	}
	if err := c.Thaw(ctx, "cassandra-1"); err != nil {
		t.Fatalf("Thaw: %v", err)
	}
	if rows := query(t, addr, "SELECT id FROM life.rows"); len(rows) != 100 {
		t.Errorf("after Thaw: %d rows, want 100", len(rows))
	}
	if _, err := c.find("cassandra-2"); err == nil {
		t.Error(`find("cassandra-2") in a cluster of one: no error`)
	}
}

// TestThreeOfEach starts three Cassandra nodes and three NATS servers at once, and loses one of
// each.
func TestThreeOfEach(t *testing.T) {
	begin := time.Now()
	c := Start(t, Spec{Cassandra: 3, NATS: 3})
	t.Logf("three of each are ready after %.1f s", time.Since(begin).Seconds())
	ctx := t.Context()
	addrs := c.CQL()
	query(t, addrs[0], "CREATE KEYSPACE three WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}")
	query(t, addrs[0], "CREATE TABLE three.rows (id int PRIMARY KEY)")
	awaitOneSchema(t, c)
	query(t, addrs[2], "INSERT INTO three.rows (id) VALUES (1)")
	publish(t, c.NATSURLs()[0], 3, 10)

	for _, name := range []string{"cassandra-3", "nats-1"} {
		if err := c.Kill(ctx, name); err != nil {
			t.Fatalf("Kill(%s): %v", name, err)
		}
	}
	query(t, addrs[0], "INSERT INTO three.rows (id) VALUES (2)")
	for _, name := range []string{"cassandra-3", "nats-1"} {
		if err := c.StartMember(ctx, name); err != nil {
			t.Fatalf("StartMember(%s): %v", name, err)
		}
	}
	if n := stored(t, c.NATSURLs()[0]); n != 10 {
		t.Errorf("after the loss of a server: %d messages, want 10", n)
	}
	// By most of the nodes: what was just acknowledged the killed one may have lost. It may not
	// have seen the others yet.
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := poll(bounded, func() (bool, error) {
		rows, err := queryNode(bounded, addrs[2], nil, "SELECT id FROM three.rows WHERE id = 1")
		return err == nil && len(rows) == 1, nil
	}); err != nil {
		t.Errorf("the restarted node does not have the row: %v", err)
	}
}

// awaitOneSchema waits until every node has applied the last change of the schema.
func awaitOneSchema(t *testing.T, c *Cluster) {
	t.Helper()
	var ips []string
	for i := range c.CQL() {
		ips = append(ips, c.plan.Block.ip(i+1))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, addr := range c.CQL() {
		if err := poll(ctx, func() (bool, error) { return cassandraReady(ctx, addr, nil, ips) == nil, nil }); err != nil {
			t.Fatalf("one schema in the eyes of %s: %v", addr, cassandraReady(t.Context(), addr, nil, ips))
		}
	}
}

const (
	streamName = "LIFE"
	perTry     = 5 * time.Second // for a request that no server may answer
)

// publish stores n messages in a new stream. A cluster that has just come up may not know all its
// servers yet.
func publish(t *testing.T, url string, replicas, n int) {
	t.Helper()
	js := connect(t, url)
	stream := jetstream.StreamConfig{Name: streamName, Subjects: []string{"life"}, Storage: jetstream.FileStorage, Replicas: replicas}
	var last error
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := poll(ctx, func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, perTry)
		defer cancel()
		_, last = js.CreateStream(try, stream)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("CreateStream: %v", last)
	}
	for range n {
		if _, err := js.Publish(t.Context(), "life", []byte("x")); err != nil {
			t.Fatalf("Publish: %v", err)
		}
	}
}

// stored returns how many messages the stream holds, as its leader says: one that lost a server
// elects it first.
func stored(t *testing.T, url string) uint64 {
	t.Helper()
	js := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var messages uint64
	var last error
	if err := poll(ctx, func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, perTry)
		defer cancel()
		var stream jetstream.Stream
		if stream, last = js.Stream(try, streamName); last != nil {
			return false, nil
		}
		messages = stream.CachedInfo().State.Msgs
		return true, nil
	}); err != nil {
		t.Fatalf("Stream: %v", last)
	}
	return messages
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatalf("jetstream.New: %v", err)
	}
	return js
}

func TestSharedIsOneProcess(t *testing.T) {
	t.Setenv(CassandraEnv, "")
	t.Setenv(NATSEnv, "")
	if first, second := Cassandra(t), Cassandra(t); first != second {
		t.Errorf("Cassandra(t) = %s, then %s; want one node for the package", first, second)
	}
	if first, second := NATS(t), NATS(t); first != second {
		t.Errorf("NATS(t) = %s, then %s; want one server for the package", first, second)
	}
	t.Setenv(CassandraEnv, "192.0.2.1:9042")
	t.Setenv(NATSEnv, "nats://192.0.2.1:4222")
	if got := Cassandra(t) + " " + NATS(t); got != "192.0.2.1:9042 nats://192.0.2.1:4222" {
		t.Errorf("with the environment set: %s, want what it says", got)
	}
}

func TestStatusJSON(t *testing.T) {
	dir := t.TempDir()
	p := plan{Spec: Spec{Cassandra: 1, NATS: 1, Nodes: 1}.withDefaults(), Block: 7}
	if err := p.write(dir); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	// This very program stands in for the Cassandra node; the pid file of the NATS server names a
	// pid given out again.
	self, _, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	stranger := self
	stranger.Started++
	for name, id := range map[string]identity{"cassandra-1": self, "nats-1": stranger} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writeIdentity(filepath.Join(dir, name), id); err != nil {
			t.Fatal(err)
		}
	}
	got, err := json.Marshal(c.Status())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"carillon":[{"name":"carillon-1","pid":0,"state":"stopped","node":"carillon-1","roles":["bucketer","dispatcher","executor"],"api":"http://127.0.7.1:18081"}],`+
		`"cassandra":[{"name":"cassandra-1","pid":%d,"state":"running","cql":"127.0.7.1:9042"}],`+
		`"nats":[{"name":"nats-1","pid":0,"state":"stopped","url":"nats://127.0.7.1:4222"}]}`, os.Getpid())
	if string(got) != want {
		t.Errorf("Status as JSON:\ngot  %s\nwant %s", got, want)
	}
}
