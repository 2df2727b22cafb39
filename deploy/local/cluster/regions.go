package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/wan"
)

// This file says what a cluster of regions consists of: nothing in it starts anything.

// regionNames are those of regions, which are also their data centres.
var regionNames = []string{"eu", "us", "ap"}

// Witness is the region with one small Cassandra and nothing else: what is decided by most of the
// data centres is decided although one region is away.
const Witness = "witness"

// A RegionsSpec describes a cluster of regions. A region is a data centre of the one Cassandra,
// NATS servers of its own, and Carillon nodes; links between regions have a delay and can be cut.
type RegionsSpec struct {
	Regions int `json:"regions"` // 2 or 3
	// Each is what every region has: Cassandra 1 to 3, NATS, Nodes, Roles, Profile, CommitLog,
	// NATSSync, Program, Profiles, Shards.
	Each Spec `json:"each"`
	// Delay is how long a packet takes from one region to another once all members are ready, until
	// it is changed.
	Delay time.Duration `json:"delay"`
	// NoWitness leaves the witness away.
	NoWitness bool `json:"no_witness,omitempty"`

	// OneKeyspace has the Carillon nodes of all regions use one keyspace, with copies in every
	// region: each has a home of as many shards. Else each region has a keyspace of its own, with
	// copies in its own data centre, and knows of no other.
	OneKeyspace bool `json:"one_keyspace,omitempty"`
	// Tenants are "tenant=home", of those that are not at home in the first region; with OneKeyspace.
	Tenants []string `json:"tenants,omitempty"`
	// Automatic fails homes over by themselves; with OneKeyspace and a witness.
	Automatic bool `json:"automatic,omitempty"`
	// Settings are written as the section regions of the configuration of every Carillon node; none
	// = those of OneKeyspace, or no section.
	Settings map[string]any `json:"settings,omitempty"`
}

func (s RegionsSpec) withDefaults() RegionsSpec {
	s.Each = s.Each.withDefaults()
	return s
}

// Validate reports every fault of the spec together.
func (s RegionsSpec) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.Regions < 2 || s.Regions > len(regionNames) {
		fault("regions: %d; 2 to %d are possible", s.Regions, len(regionNames))
	}
	if s.Delay < 0 || s.Delay > wan.MaxDelay {
		fault("delay: %s; 0 to %s are possible", s.Delay, wan.MaxDelay)
	}
	each := s.Each
	if each.Cassandra < 1 || each.Cassandra > 3 {
		fault("cassandra: %d nodes of a region; 1 to 3 are possible", each.Cassandra)
	}
	if each.Secure || each.Namespaces || each.Disks || each.DataCenter != "" && each.DataCenter != (Spec{}).withDefaults().DataCenter {
		fault("secure, namespaces, disks and datacenter are not for regions")
	}
	each.Cassandra = 1 // what else there is to say of it was said
	return errors.Join(append(faults, each.Validate())...)
}

// Homes returns the names of the regions that have Carillon nodes, in order. Under OneKeyspace they
// are those of the homes as well.
func (s RegionsSpec) Homes() []string { return slices.Clone(regionNames[:s.Regions]) }

// names returns the name of every region, the witness last.
func (s RegionsSpec) names() []string {
	names := s.Homes()
	if !s.NoWitness {
		names = append(names, Witness)
	}
	return names
}

// of returns the spec of one region.
func (s RegionsSpec) of(name string) Spec {
	spec := s.Each
	if name == Witness {
		spec = Spec{Cassandra: 1, CommitLog: s.Each.CommitLog}.withDefaults()
	}
	spec.DataCenter = name
	return spec
}

// A site is the place of a cluster that is one region of several.
type site struct {
	Network  int            `json:"network"` // of package wan
	Region   int            `json:"region"`  // its number there
	Name     string         `json:"name"`
	Seeds    []string       `json:"seeds"` // addresses of the Cassandra nodes of all regions
	Keyspace string         `json:"keyspace"`
	Settings map[string]any `json:"settings,omitempty"`
}

// ip is the address of a member of the region.
func (s site) ip(b int) string { return wan.IP(s.Network, s.Region, b) }

// tokenOffset is what tokens of the region's nodes are greater by than those of the first region:
// no two nodes of all data centres may have the same.
func (s site) tokenOffset() int64 { return 100 * int64(s.Region-1) }

// regionsName is the file that says what the folder of a cluster of regions holds.
const regionsName = "regions.json"

// HasRegions reports whether dir is the folder of a cluster of regions, also of a stopped one.
func HasRegions(dir string) bool { return exists(filepath.Join(dir, regionsName)) }

// A regionsPlan is what is decided once about a cluster of regions and kept.
type regionsPlan struct {
	Spec      RegionsSpec `json:"spec"`
	Network   int         `json:"network"`
	CursorKey string      `json:"cursor_key"` // of lists: one for all
	RingKeys  []string    `json:"ring_keys"`  // of gossip: one for each region
}

func newRegionsPlan(spec RegionsSpec) regionsPlan {
	p := regionsPlan{Spec: spec, CursorKey: newKey()}
	for range spec.names() {
		p.RingKeys = append(p.RingKeys, newKey())
	}
	return p
}

// seeds returns the addresses of the Cassandra nodes of all regions.
func (p regionsPlan) seeds() (seeds []string) {
	for i, name := range p.Spec.names() {
		at := plan{Site: &site{Network: p.Network, Region: i + 1}}
		for j := range p.Spec.of(name).Cassandra {
			seeds = append(seeds, at.ip(kindCassandra, j+1))
		}
	}
	return seeds
}

// sites returns the plan of every region's cluster. Carillon nodes run program.
func (p regionsPlan) sites(program string) (plans []plan) {
	for i, name := range p.Spec.names() {
		spec := p.Spec.of(name)
		spec.Program = program
		plans = append(plans, plan{
			Spec: spec, RingKey: p.RingKeys[i], CursorKey: p.CursorKey,
			Site: &site{
				Network: p.Network, Region: i + 1, Name: name, Seeds: p.seeds(),
				Keyspace: p.keyspace(name), Settings: p.settings(),
			},
		})
	}
	return plans
}

// keyspace is that of the Carillon nodes of a region.
func (p regionsPlan) keyspace(region string) string {
	if p.Spec.OneKeyspace {
		return carillonKeyspace
	}
	return carillonKeyspace + "_" + region
}

// settings returns the section regions of the configuration of a Carillon node; nil: there is none.
func (p regionsPlan) settings() map[string]any {
	s := p.Spec
	if s.Settings != nil || !s.OneKeyspace {
		return s.Settings
	}
	homes, centres, apis := make([]string, s.Regions), make([]string, s.Regions), []string(nil)
	for i, name := range regionNames[:s.Regions] {
		homes[i] = fmt.Sprintf("%s=%d-%d", name, i*s.Each.Shards/s.Regions, (i+1)*s.Each.Shards/s.Regions-1)
		centres[i] = fmt.Sprintf("%s=%s:%d", name, name, s.of(name).Cassandra)
		at := plan{Site: &site{Network: p.Network, Region: i + 1}}
		for j := range s.of(name).Nodes {
			apis = append(apis, name+"="+apiURL(at, j+1))
		}
	}
	settings := map[string]any{"homes": homes, "datacenters": centres, "keyspace": registerKeyspace, "api": apis}
	if !s.NoWitness {
		settings["witness"] = Witness
	}
	if s.Automatic {
		settings["automatic"] = true
	}
	if len(s.Tenants) > 0 {
		settings["tenants"] = s.Tenants
	}
	return settings
}

// registerKeyspace holds what most of the data centres decide, that of the witness among them.
const registerKeyspace = carillonKeyspace + "_regions"

// keyspaces returns the statements that create the keyspaces of a cluster whose regions share them.
// `carillon migrate` creates those of one region.
func (p regionsPlan) keyspaces() []string {
	if !p.Spec.OneKeyspace {
		return nil
	}
	create := func(keyspace string, names []string) string {
		var copies strings.Builder
		for _, name := range names {
			fmt.Fprintf(&copies, ", '%s': %d", name, p.Spec.of(name).Cassandra)
		}
		return fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy'%s}", keyspace, copies.String())
	}
	return []string{create(carillonKeyspace, regionNames[:p.Spec.Regions]), create(registerKeyspace, p.Spec.names())}
}

// wan returns the network of the regions, at first without a delay.
func (p regionsPlan) wan() wan.Spec {
	s := wan.Spec{Number: p.Network}
	for _, name := range p.Spec.names() {
		r := wan.Region{Name: name}
		for _, m := range (plan{Spec: p.Spec.of(name)}).members() {
			r.Bytes = append(r.Bytes, networkMember(m).Byte)
		}
		s.Regions = append(s.Regions, r)
	}
	return s
}

// change returns the plan for the same cluster with another spec, or says why that needs a new
// cluster.
func (p regionsPlan) change(spec RegionsSpec, anyRunning bool) (regionsPlan, error) {
	const advice = "take the cluster down first (with its data, to change its regions and counts of servers)"
	laidOut := func(s RegionsSpec) RegionsSpec { // what data is laid out for
		s.Delay, s.Settings = 0, nil
		s.Each = Spec{Cassandra: s.Each.Cassandra, NATS: s.Each.NATS}
		return s
	}
	settings := func(s RegionsSpec) RegionsSpec { s.Delay = 0; return s }
	if !same(laidOut(p.Spec), laidOut(spec)) || anyRunning && !same(settings(p.Spec), settings(spec)) {
		return regionsPlan{}, fmt.Errorf("the cluster has other settings (%+v): %s", p.Spec, advice)
	}
	p.Spec = spec
	return p, nil
}

// same compares as files do: numbers have no types there.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func readRegionsPlan(dir string) (p regionsPlan, err error) {
	text, err := os.ReadFile(filepath.Join(dir, regionsName))
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("%s: %w", dir, ErrNoCluster)
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("read plan in %s: %w", dir, err)
	}
	return p, nil
}

func (p regionsPlan) write(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	return writeFile(filepath.Join(dir, regionsName), append(text, '\n'), 0o600)
}

// firstCQL is the address of a node that creates keyspaces.
func (p regionsPlan) firstCQL() string {
	return net.JoinHostPort(p.seeds()[0], strconv.Itoa(cqlPort))
}
