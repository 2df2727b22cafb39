// Package cluster runs real clusters on one Linux machine: Cassandra nodes from their Maven jars,
// NATS servers from their module, and Carillon nodes, each a process of its own that can be killed,
// frozen, thawed and started again with its data. The program in the folder above is its command
// line; tests call it directly.
//
// # In a test
//
// What most tests need is some Cassandra and some NATS, shared with others:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(cluster.Main(m)) }
//
//	func TestStore(t *testing.T) {
//		addr := cluster.Cassandra(t) // "127.0.1.1:9042"
//		url := cluster.NATS(t)       // "nats://127.0.1.1:4222"
//		…
//
// They are, in this order: what CARILLON_TEST_CASSANDRA and CARILLON_TEST_NATS name; one process
// for the package, if it has the TestMain above; one for the test. To run many packages against one
// pair of servers:
//
//	go run ./deploy/local exec -- go test ./...
//
// A test that kills or freezes members starts a cluster of its own, which ends with it:
//
//	c := cluster.Start(t, cluster.Spec{Cassandra: 3, NATS: 3, CommitLog: cluster.CommitLogGroup})
//	err := c.Kill(t.Context(), "cassandra-2")
//	err = c.StartMember(t.Context(), "cassandra-2")
//
// Where there is no Java or Maven such tests are skipped with "LEFT OUT: …", and fail where
// CI=true.
//
// # Regions
//
// UpRegions makes a Cluster for each of several regions, and one for a witness: a data centre of
// one Cassandra, with NATS servers and Carillon nodes of its own. Package wan joins them. It needs
// root.
//
// # Invariants
//
//  1. A signal is sent only to the very process that was started for the member: pid, start time
//     and boot must match.
//  2. A member keeps its name, address and data folder for the life of its cluster's folder.
//  3. Clusters that are up at the same time have no address in common: each has a block 127.0.b.x
//     of its own, or regions a network of package wan.
//  4. Members of an attached cluster (all those of tests) do not outlive the program that started
//     them.
//  5. No jar is run whose SHA-256 is not the committed one.
//
// # Crashes
//
// The plan (cluster.json) is written before the first start, a pid file right after each start, and
// both in one step. If the program dies between a start and its pid file, an attached process dies
// with it; a detached one stays, unknown: its address is then in use, and the next start of the
// member fails with a log that says so.
//
// # Files
//
//	cluster.go, members.go           start, stop, kill, freeze members
//	spec.go, plan.go, block.go       what is asked; names, addresses, folders
//	cassandra.go, jars.go, cql.go    Cassandra without containers
//	nats.go, carillon.go             the other members
//	links.go, disks.go, security.go  cut links, disks, TLS
//	regions.go, regions_up.go        clusters of several regions
//	process*.go                      processes by pid and start time
//	status.go, testing.go, cache.go  what is up; clusters for tests; downloads
package cluster
