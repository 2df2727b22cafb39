package cassandra

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/schema"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A session of gocql that is closed while it hears of a change of the schema goes on asking a
	// closed connection whether the nodes agree, five times a second, until MaxWaitSchemaAgreement
	// ends it.
	goleak.VerifyTestMain(cluster.Main(m), goleak.IgnoreAnyFunction("github.com/gocql/gocql.(*Conn).awaitSchemaAgreement"))
}

// testKeyspace is shared by all tests that use a real Cassandra, in every package: it is migrated
// under a lock, and each test keeps to rows of its own.
const testKeyspace = "carillon_test"

// testConfig returns a configuration for the keyspace of all tests. It does not connect.
func testConfig(t testing.TB) Config {
	t.Helper()
	host, text, err := net.SplitHostPort(cluster.Cassandra(t))
	if err != nil {
		t.Fatalf("address of the test's Cassandra: %v", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("port of the test's Cassandra: %v", err)
	}
	return Config{
		Hosts: []string{host}, Port: port, Keyspace: testKeyspace,
		Timeout: 20 * time.Second, ConnectTimeout: 20 * time.Second, // a busy machine is no failure
	}
}

// openTest returns a store on a real, migrated Cassandra, closed at the test's end.
func openTest(t testing.TB) *Store {
	t.Helper()
	return openWith(t, testConfig(t))
}

// openCounted is openTest with the store's metrics.
func openCounted(t *testing.T) (*Store, *prometheus.Registry) {
	t.Helper()
	cfg := testConfig(t)
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	return openWith(t, cfg), reg
}

func openWith(t testing.TB, cfg Config) *Store {
	t.Helper()
	migrateTest(t, cfg)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open(%v): %v", cfg.Hosts, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

var migrated struct {
	sync.Mutex
	done bool
}

// migrateTest migrates the keyspace of all tests, once a process.
func migrateTest(t testing.TB, cfg Config) {
	t.Helper()
	migrated.Lock()
	defer migrated.Unlock()
	if migrated.done {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if _, err := Migrate(ctx, cfg, MigrateOptions{Replication: "1", Out: &out}); err != nil {
		t.Fatalf("Migrate: %v\n%s", err, out.String())
	}
	migrated.done = true
}

// counted sums the statements of that name, over all results.
func counted(t *testing.T, reg *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	out := make(map[string]int)
	for _, f := range families {
		if f.GetName() != "carillon_cassandra_statements_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "statement" && m.GetCounter().GetValue() > 0 {
					out[l.GetValue()] += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return out
}

// seeded returns random numbers and logs how to get the same ones.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// somewhere returns the first instant of a random bucket of the next nine years: a test's own part
// of the keyspace.
func somewhere() time.Time {
	const minutes = 9 * 365 * 24 * 60
	return schema.BucketOf(time.Now().Add(time.Duration(1+rand.IntN(minutes)) * time.Minute)).Start()
}

// entryAt makes an entry of tenant due at t in shard s.
func entryAt(tb testing.TB, t time.Time, s schema.Shard, tenant string, payload []byte) schema.Entry {
	tb.Helper()
	e, err := schema.NewEntry(schema.MakeEntryID(t, s, schema.RandomHash()),
		schema.Spec{Tenant: tenant, Nominal: t, Accepted: time.Now().UnixMicro()}, payload, time.Now().Add(time.Hour))
	if err != nil {
		tb.Fatalf("NewEntry: %v", err)
	}
	return e
}

// put writes the entries or ends the test.
func put(t *testing.T, s *Store, entries ...schema.Entry) {
	t.Helper()
	if err := s.PutEntries(t.Context(), entries); err != nil {
		t.Fatalf("PutEntries of %d: %v", len(entries), err)
	}
}

func unique(prefix string) string { return fmt.Sprintf("%s-%x", prefix, rand.Uint64()) }
