package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"carillon.dev/carillon/deploy/local/netns"
)

// planName is the file that says what a cluster's folder holds.
const planName = "cluster.json"

// A plan is what is decided once about a cluster and kept: everything else follows from it.
type plan struct {
	Spec  Spec  `json:"spec"`
	Block block `json:"block"`

	// Site is where it lives if it is one region of several; nil = by itself.
	Site *site `json:"site,omitempty"`

	// Secrets that all Carillon nodes share, base64 of 32 bytes: of their gossip, and of the
	// cursors of their lists.
	RingKey   string `json:"ring_key"`
	CursorKey string `json:"cursor_key"`
}

// A member is one process of the plan.
type member struct {
	kind  kind
	index int // among its kind, counted from 1
}

func (m member) name() string { return memberName(m.kind, m.index) }

// members returns every member: Cassandra, then NATS, then Carillon.
func (p plan) members() []member {
	var all []member
	for _, part := range []struct {
		kind  kind
		count int
	}{{kindCassandra, p.Spec.Cassandra}, {kindNATS, p.Spec.NATS}, {kindCarillon, p.Spec.Nodes}} {
		for i := 1; i <= part.count; i++ {
			all = append(all, member{part.kind, i})
		}
	}
	return all
}

// firstByte is the last byte of the address of the first member of each sort, where every member
// has a network namespace of its own.
var firstByte = map[kind]int{kindCassandra: 11, kindNATS: 21, kindCarillon: 101}

// network is the network of the cluster's namespaces.
func (p plan) network() netns.Network { return netns.New(int(p.Block)) }

// networkMember is how a member appears on that network.
func networkMember(m member) netns.Member {
	return netns.Member{Name: m.name(), Byte: firstByte[m.kind] + m.index - 1}
}

// ip is the address of a member.
func (p plan) ip(k kind, i int) string {
	switch {
	case p.Site != nil:
		return p.Site.ip(networkMember(member{k, i}).Byte)
	case p.Spec.Namespaces:
		return p.network().IP(networkMember(member{k, i}).Byte)
	case k == kindCarillon: // their ports differ
		return p.Block.ip(1)
	default:
		return p.Block.ip(i)
	}
}

// cassandraName and natsName are the names of the clusters of these servers: all regions have one
// Cassandra, and each its own NATS.
func (p plan) cassandraName() string {
	if p.Site != nil {
		return fmt.Sprintf("carillon-regions-%d", p.Site.Network)
	}
	return fmt.Sprintf("carillon-local-%d", p.Block)
}

func (p plan) natsName() string {
	if p.Site != nil {
		return p.cassandraName() + "-" + p.Site.Name
	}
	return fmt.Sprintf("carillon-local-%d", p.Block)
}

// seeds returns the addresses of the Cassandra nodes that a node looks for: all.
func (p plan) seeds() []string {
	if p.Site != nil {
		return slices.Clone(p.Site.Seeds)
	}
	seeds := make([]string, p.Spec.Cassandra)
	for i := range seeds {
		seeds[i] = p.ip(kindCassandra, i+1)
	}
	return seeds
}

// token returns where Cassandra node i begins on the ring.
func (p plan) token(i int) int64 {
	token := cassandraTokens[p.Spec.Cassandra][i-1]
	if p.Site != nil {
		token += p.Site.tokenOffset()
	}
	return token
}

// nodeName is the name that Carillon node i goes by.
func (p plan) nodeName(i int) string {
	if p.Site != nil {
		return p.Site.Name + "-" + memberName(kindCarillon, i)
	}
	return memberName(kindCarillon, i)
}

// addr is "ip:port" of a member.
func (p plan) addr(k kind, i, port int) string {
	return net.JoinHostPort(p.ip(k, i), strconv.Itoa(port))
}

// cqlAddrs returns "ip:port" of every Cassandra node.
func (p plan) cqlAddrs() []string {
	addrs := make([]string, p.Spec.Cassandra)
	for i := range addrs {
		addrs[i] = p.addr(kindCassandra, i+1, cqlPort)
	}
	return addrs
}

// natsURLs returns the URL of every NATS server.
func (p plan) natsURLs() []string {
	urls := make([]string, p.Spec.NATS)
	for i := range urls {
		urls[i] = p.natsURL(i + 1)
	}
	return urls
}

func (p plan) natsURL(i int) string { return "nats://" + p.addr(kindNATS, i, natsPort) }

// ErrNoCluster says that a folder holds no cluster, not even a stopped one, and what to do about
// it.
var ErrNoCluster = errors.New("no cluster: make up starts one")

func readPlan(dir string) (plan, error) {
	text, err := os.ReadFile(filepath.Join(dir, planName))
	if errors.Is(err, fs.ErrNotExist) {
		return plan{}, fmt.Errorf("%s: %w", dir, ErrNoCluster)
	}
	if err != nil {
		return plan{}, fmt.Errorf("read plan: %w", err)
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return plan{}, fmt.Errorf("read plan in %s: %w", dir, err)
	}
	return p, nil
}

func (p plan) write(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	return writeFile(filepath.Join(dir, planName), append(text, '\n'), 0o600)
}

// change returns the plan for the same cluster with another spec, or says why that needs a new
// cluster: data is laid out for a number of nodes, and what runs keeps the settings it was started
// with.
func (p plan) change(spec Spec, anyRunning bool) (plan, error) {
	const advice = "take the cluster down first (with its data, to change counts)"
	old := p.Spec
	if spec.Cassandra != old.Cassandra || spec.NATS != old.NATS || spec.DataCenter != old.DataCenter {
		return plan{}, fmt.Errorf("the cluster has %d Cassandra (%s) and %d NATS, asked for are %d (%s) and %d: %s",
			old.Cassandra, old.DataCenter, old.NATS, spec.Cassandra, spec.DataCenter, spec.NATS, advice)
	}
	if spec.Nodes < old.Nodes && anyRunning {
		return plan{}, fmt.Errorf("the cluster has %d Carillon nodes, asked for are %d: %s", old.Nodes, spec.Nodes, advice)
	}
	settings := func(s Spec) Spec { s.Nodes, s.Roles = 0, nil; return s } // what all members share
	if anyRunning && !reflect.DeepEqual(settings(spec), settings(old)) {
		return plan{}, fmt.Errorf("the cluster is running with other settings (%+v): %s", settings(old), advice)
	}
	for i := 1; anyRunning && i <= old.Nodes; i++ {
		if !reflect.DeepEqual(old.rolesOf(i), spec.rolesOf(i)) {
			return plan{}, fmt.Errorf("%s is running with the roles %q: %s", memberName(kindCarillon, i), old.rolesOf(i), advice)
		}
	}
	p.Spec = spec
	return p, nil
}

func newKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return base64.StdEncoding.EncodeToString(key)
}
