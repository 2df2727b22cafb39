package cluster

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Profile says how much memory and which JVM settings the Cassandra nodes get.
type Profile string

// The profiles.
const (
	// ProfileTest starts fast and stays small: 64 to 256 MiB of heap, serial collector, C1 only.
	ProfileTest Profile = "test"
	// ProfileLoad is for measurements: 2 GiB of heap, G1, both compilers.
	ProfileLoad Profile = "load"
)

// A CommitLog says when a Cassandra node acknowledges a write.
type CommitLog string

// The commit log modes.
const (
	// CommitLogPeriodic acknowledges before the write is on disk. It loses the last tens of
	// milliseconds of acknowledged writes when every replica is killed at once, and those of
	// CommitLogPeriod in a power cut.
	CommitLogPeriodic CommitLog = "periodic"
	// CommitLogGroup acknowledges what is on disk, synced in groups of 10 ms. Use it wherever a
	// test asserts that an acknowledged write survives a kill.
	CommitLogGroup CommitLog = "group"
)

// CommitLogPeriod is after how long at most a write is on disk in CommitLogPeriodic: what a power
// cut of every replica may take.
const CommitLogPeriod = 10 * time.Second

// maxNodes bounds the Carillon nodes of one cluster; their ports are counted up from a base.
const maxNodes = 16

// allRoles are the roles that `carillon serve --roles` knows.
var allRoles = []string{"bucketer", "dispatcher", "executor"}

// A Spec describes a cluster. A count of 0 means none; the zero value of any other field is its
// default.
type Spec struct {
	Cassandra int `json:"cassandra"` // nodes: 0, 1 or 3
	NATS      int `json:"nats"`      // servers: 0, 1 or 3
	// Carillon nodes: 0 to 16; they need at least one of each of the others
	Nodes int `json:"nodes"`

	// Roles of the Carillon nodes in order; a missing or empty element means every role.
	Roles [][]string `json:"roles,omitempty"`

	Profile    Profile   `json:"profile"`    // default ProfileTest
	CommitLog  CommitLog `json:"commit_log"` // default CommitLogPeriodic
	DataCenter string    `json:"datacenter"`
	// Secure makes Cassandra take only encrypted connections of clients that name a user: see
	// Cluster.Security. For tests of that, on one node and without Carillon nodes, whose
	// configuration here knows nothing of it.
	Secure bool `json:"secure,omitempty"`
	// Views makes Cassandra accept materialized views, for measurements of the schemas of other
	// systems.
	Views bool `json:"views,omitempty"`
	// NATSSync is JetStream's sync_interval: after how long an acknowledged message is on disk. 0 =
	// the server's default (2 min; a killed process loses nothing, a power cut does); negative =
	// before every acknowledgement.
	NATSSync time.Duration `json:"nats_sync"`

	// Program is the carillon that the nodes run; "" = one that is built from the work tree when
	// the cluster starts.
	Program string `json:"program,omitempty"`

	// Namespaces gives each member a network namespace with an address of its own, so that links
	// between members can be cut (Cluster.Cut). It needs root and the programs ip and nft, and an
	// attached cluster.
	Namespaces bool `json:"namespaces,omitempty"`

	// Disks gives each Cassandra and NATS member a disk of its own, so that its power can be cut
	// and it can be full (disks.go). It needs root, and an attached cluster.
	Disks bool `json:"disks,omitempty"`

	// Profiles has the Carillon nodes serve profiles on listeners of their own. Jobs may call the
	// loopback interface here, so those of a node can reach the listeners of the others: for
	// measurements.
	Profiles bool `json:"profiles,omitempty"`

	// Shards is S of the keyspace that the first migration makes; default 16, enough for 3,000 runs
	// a second, which is more than one machine with everything on it starts. Every shard costs a
	// read a second, on each replica.
	Shards int `json:"shards"`
}

// withDefaults returns s with the defaults filled in.
func (s Spec) withDefaults() Spec {
	if s.Profile == "" {
		s.Profile = ProfileTest
	}
	if s.CommitLog == "" {
		s.CommitLog = CommitLogPeriodic
	}
	if s.DataCenter == "" {
		s.DataCenter = "dc1"
	}
	if s.Shards == 0 {
		s.Shards = 16
	}
	return s
}

// Validate reports every fault of the spec together.
func (s Spec) Validate() error {
	s = s.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains([]int{0, 1, 3}, s.Cassandra) {
		fault("cassandra: %d nodes; 0, 1 or 3 are possible", s.Cassandra)
	}
	if !slices.Contains([]int{0, 1, 3}, s.NATS) {
		fault("nats: %d servers; 0, 1 or 3 are possible", s.NATS)
	}
	if s.Nodes < 0 || s.Nodes > maxNodes {
		fault("nodes: %d; 0 to %d are possible", s.Nodes, maxNodes)
	}
	if s.Nodes > 0 && (s.Cassandra == 0 || s.NATS == 0) {
		fault("nodes: a Carillon node needs Cassandra and NATS, and there are %d and %d", s.Cassandra, s.NATS)
	}
	if s.Cassandra+s.NATS == 0 {
		fault("an empty cluster: neither Cassandra nor NATS")
	}
	if s.Secure && (s.Cassandra != 1 || s.Nodes > 0) {
		fault("secure: is for one Cassandra without Carillon nodes, and there are %d and %d", s.Cassandra, s.Nodes)
	}
	if s.Profile != ProfileTest && s.Profile != ProfileLoad {
		fault("profile: %q is neither %q nor %q", s.Profile, ProfileTest, ProfileLoad)
	}
	if s.CommitLog != CommitLogPeriodic && s.CommitLog != CommitLogGroup {
		fault("commit log: %q is neither %q nor %q", s.CommitLog, CommitLogPeriodic, CommitLogGroup)
	}
	if s.Shards < 1 || s.Shards > 4096 {
		fault("shards: %d; 1 to 4096 are possible", s.Shards)
	}
	if len(s.Roles) > s.Nodes {
		fault("roles: stated for %d nodes, and there are %d", len(s.Roles), s.Nodes)
	}
	for i, roles := range s.Roles {
		for _, role := range roles {
			if !slices.Contains(allRoles, role) {
				fault("roles: %s: %q is not a role; there are %q", memberName(kindCarillon, i+1), role, allRoles)
			}
		}
	}
	return errors.Join(faults...)
}

// rolesOf returns the roles of Carillon node i, counted from 1.
func (s Spec) rolesOf(i int) []string {
	if i <= len(s.Roles) && len(s.Roles[i-1]) > 0 {
		return s.Roles[i-1]
	}
	return allRoles
}

// kind tells the three sorts of members apart.
type kind string

const (
	kindCassandra kind = "cassandra"
	kindNATS      kind = "nats"
	kindCarillon  kind = "carillon"
)

func memberName(k kind, i int) string { return fmt.Sprintf("%s-%d", k, i) }
