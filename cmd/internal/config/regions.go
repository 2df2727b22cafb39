package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/httpapi/forward"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/cassandra"
)

// Regions says which regions there are, and which shards are at home in each. It is the same on
// every node of every region. Without homes there are no regions.
type Regions struct {
	// Homes are "name=first-last", further ranges after a plus sign. A home is called after the
	// region that serves it at first. A shard keeps its home for ever.
	Homes []string `koanf:"homes"`
	// Tenants are "tenant=home", of those that are not at home in the first home of all. A tenant
	// keeps its home for ever.
	Tenants []string `koanf:"tenants"`
	// Datacenters are "region=data centre", or "region=data centre:copies" of what regions share; 3
	// unless given.
	Datacenters []string `koanf:"datacenters"`
	// Out are regions that are lost for good: their data centres have no copies any more, and
	// nobody waits for them. Their homes stay, and other regions serve them.
	Out []string `koanf:"out"`
	// Witness is a further data centre with copies of what regions share, without Carillon, as
	// "data centre" or "data centre:copies", 1 unless given; empty: there is none.
	Witness string `koanf:"witness"`
	// API are "region=URL", base URLs under which the API of a region is reached from the others; a
	// region may stand there several times. What belongs to a region without one is refused
	// elsewhere.
	API []string `koanf:"api"`
	// Routes are "host pattern=home", in order: where one-off jobs lie that call such a host and
	// say nothing else of it.
	Routes []string `koanf:"routes"`
	// Keyspace holds what regions share: who serves each home, and signs of life.
	Keyspace string `koanf:"keyspace"`
	// Durability is when a job is acknowledged that does not say: DurableHome or DurableEverywhere.
	Durability string `koanf:"durability"`
	// Automatic: the homes of a region that gives no sign of life for 30 s are failed over by
	// themselves. It needs data centres of which a quorum is left without any one region.
	Automatic bool `koanf:"automatic"`
}

// What Regions.Durability may be.
const (
	DurableHome       = "home"       // once a quorum of its home's data centre holds it
	DurableEverywhere = "everywhere" // once a quorum of each region's does
)

// RegionMap is Regions, understood.
type RegionMap struct {
	Homes       schema.Homes
	Datacenters map[string]string   // by region, without those that are out
	Copies      map[string]int      // of what regions share, by data centre, the witness's too
	APIs        map[string][]string // base URLs of the regions' APIs, by region, in their order
	Routes      []bucketer.Route
}

// Names returns the names of all regions that are not out, in order.
func (m RegionMap) Names() []string { return slices.Sorted(maps.Keys(m.Datacenters)) }

// Clear returns those of API by which other machines than this one are spoken to without TLS, but
// those of the region of a node.
func (r Regions) Clear(region string) []string {
	var open []string
	for _, text := range r.API {
		name, base, _ := strings.Cut(text, "=")
		u, err := url.Parse(strings.TrimSpace(base))
		if err == nil && u.Scheme == "http" && strings.TrimSpace(name) != region && !loopback(net.JoinHostPort(u.Hostname(), "80")) {
			open = append(open, u.String())
		}
	}
	return open
}

// Enabled reports whether there are regions: something of them is set that has no default.
func (r Regions) Enabled() bool {
	return len(r.Homes) > 0 || len(r.Tenants) > 0 || len(r.Datacenters) > 0 || r.Witness != "" || len(r.API) > 0 || len(r.Routes) > 0 || r.Automatic
}

var (
	regionName     = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$`)
	keyspaceName   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
	datacenterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// What regions share has so many copies unless it says otherwise.
const (
	regionCopies  = 3
	witnessCopies = 1
)

// Map returns what r says, or an error that joins every fault, each with its key.
func (r Regions) Map() (RegionMap, error) {
	m := RegionMap{Datacenters: make(map[string]string), Copies: make(map[string]int), APIs: make(map[string][]string)}
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("regions.%s: %s", key, fmt.Sprintf(format, args...)))
	}
	var list []schema.Home
	understood := true
	for _, text := range r.Homes {
		home, ok := parseHome(text)
		if !ok {
			fault("homes", "%q is not a home and its shards, such as eu=0-31 or eu=0-31+64-95", text)
			understood = false
			continue
		}
		list = append(list, home)
	}
	if understood { // else a shard of one that is not understood would seem to have no home
		var err error
		if m.Homes, err = schema.NewHomes(list); err != nil {
			for line := range strings.Lines(err.Error()) {
				fault("homes", "%s", strings.TrimSpace(line))
			}
		}
	}
	tenants := make(map[string]string)
	for _, text := range r.Tenants {
		tenant, home, ok := strings.Cut(text, "=")
		tenant, home = strings.TrimSpace(tenant), strings.TrimSpace(home)
		_, twice := tenants[tenant]
		switch {
		case !ok || tenant == "" || home == "":
			fault("tenants", "%q is not a tenant and its home, such as acme=us", text)
		case twice:
			fault("tenants", "tenant %s is named twice", tenant)
		default:
			tenants[tenant] = home
		}
	}
	if len(tenants) > 0 && len(m.Homes.Names()) > 0 {
		var err error
		if m.Homes, err = m.Homes.WithTenants(tenants); err != nil {
			for line := range strings.Lines(err.Error()) {
				fault("tenants", "%s", strings.TrimSpace(line))
			}
		}
	}
	for _, text := range r.Datacenters {
		region, rest, _ := strings.Cut(text, "=")
		region = strings.TrimSpace(region)
		dc, copies, ok := parseCopies(rest, regionCopies)
		switch _, twice := m.Datacenters[region]; {
		case !ok || !regionName.MatchString(region):
			fault("datacenters", "%q is not a region and its data centre, such as eu=dc1 or eu=dc1:3", text)
		case twice:
			fault("datacenters", "region %s is named twice", region)
		case m.Copies[dc] > 0:
			fault("datacenters", "%s is the data centre of two regions: each needs one of its own", dc)
		default:
			m.Datacenters[region], m.Copies[dc] = dc, copies
		}
	}
	if r.Witness != "" {
		dc, copies, ok := parseCopies(r.Witness, witnessCopies)
		switch {
		case !ok:
			fault("witness", "%q is not a data centre, such as dc3 or dc3:1", r.Witness)
		case m.Copies[dc] > 0:
			fault("witness", "%s is the data centre of a region: a witness stands apart from all of them", dc)
		default:
			m.Copies[dc] = copies
		}
	}
	for _, text := range r.API {
		region, base, ok := strings.Cut(text, "=")
		region, base = strings.TrimSpace(region), strings.TrimSpace(base)
		wrong := forward.CheckURL(base)
		_, known := m.Datacenters[region]
		switch {
		case !ok || region == "":
			fault("api", "%q is not a region and the URL of its API, such as eu=https://eu.example.com", text)
		case wrong != nil:
			fault("api", "region %s: %s", region, wrong)
		case !known:
			fault("api", "%s is none of the regions of regions.datacenters", region)
		case slices.Contains(m.APIs[region], base):
			fault("api", "region %s has %s twice", region, base)
		default:
			m.APIs[region] = append(m.APIs[region], base)
		}
	}
	for _, text := range r.Routes {
		host, home, ok := strings.Cut(text, "=")
		host, home = strings.ToLower(strings.TrimSpace(host)), strings.TrimSpace(home)
		_, err := path.Match(host, "")
		switch {
		case !ok || host == "" || home == "" || err != nil:
			fault("routes", "%q is not a pattern of hosts and a home, such as *.eu.example.com=eu", text)
		case understood && !slices.Contains(m.Homes.Names(), home):
			fault("routes", "%q: %s is none of regions.homes", text, home)
		default:
			m.Routes = append(m.Routes, bucketer.Route{Host: host, Home: home})
		}
	}
	if len(r.Datacenters) < 2 && r.Enabled() {
		fault("datacenters", "names %d regions: there are regions from two on", len(r.Datacenters))
	}
	if len(r.Homes) == 0 && r.Enabled() {
		fault("homes", "names no home")
	}
	for _, home := range list {
		if _, ok := m.Datacenters[home.Name]; !ok {
			fault("homes", "home %s has no region of its name in regions.datacenters, to serve it at first", home.Name)
		}
	}
	m.leaveOut(r.Out, fault)
	if !keyspaceName.MatchString(r.Keyspace) {
		fault("keyspace", "%q is not a small letter followed by at most 47 of a-z, 0-9, _", r.Keyspace)
	}
	if r.Durability != DurableHome && r.Durability != DurableEverywhere {
		fault("durability", "%q is not home or everywhere", r.Durability)
	}
	if lost := m.decisive(); r.Automatic && lost != "" && len(faults) == 0 {
		fault("automatic", "without region %s no quorum of the keyspace of regions is left, so nobody could fail its homes over: name a witness (regions.witness), or other copies", lost)
	}
	if err := errors.Join(faults...); err != nil {
		return RegionMap{}, err
	}
	return m, nil
}

// leaveOut takes regions away that are lost for good.
func (m RegionMap) leaveOut(out []string, fault func(key, format string, args ...any)) {
	for _, region := range out {
		dc, ok := m.Datacenters[region]
		switch {
		case !ok:
			fault("out", "%q is none of the regions of regions.datacenters, or stands there twice", region)
		case len(m.Datacenters) == 1:
			fault("out", "names all regions: one must be left")
		default:
			delete(m.Datacenters, region)
			delete(m.Copies, dc)
			delete(m.APIs, region)
		}
	}
}

// decisive returns a region without whose data centre no quorum is left of what regions share; "": there
// is none, or there is no other region.
func (m RegionMap) decisive() string {
	if len(m.Datacenters) == 1 {
		return ""
	}
	all := 0
	for _, n := range m.Copies {
		all += n
	}
	for _, region := range m.Names() {
		if all-m.Copies[m.Datacenters[region]] < all/2+1 {
			return region
		}
	}
	return ""
}

// parseHome understands "eu=0-31+64-95"; a shard alone is a range.
func parseHome(text string) (schema.Home, bool) {
	name, ranges, _ := strings.Cut(text, "=")
	home := schema.Home{Name: strings.TrimSpace(name)}
	for part := range strings.SplitSeq(ranges, "+") {
		first, last, several := strings.Cut(strings.TrimSpace(part), "-")
		if !several {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil {
			return schema.Home{}, false
		}
		home.Shards = append(home.Shards, schema.ShardRange{First: schema.Shard(a), Last: schema.Shard(b)})
	}
	return home, regionName.MatchString(home.Name)
}

// parseCopies understands "dc1" and "dc1:3".
func parseCopies(text string, otherwise int) (datacenter string, copies int, ok bool) {
	datacenter, number, given := strings.Cut(strings.TrimSpace(text), ":")
	copies = otherwise
	if given {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 9 {
			return "", 0, false
		}
		copies = n
	}
	return datacenter, copies, datacenterName.MatchString(datacenter)
}

// regionFaults returns what is wrong with the regions, and with what must fit them.
func (c Config) regionFaults() []error {
	m, err := c.Regions.Map()
	if err != nil {
		return []error{err}
	}
	if !c.Regions.Enabled() {
		return nil
	}
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	dc, ok := m.Datacenters[c.Node.Region]
	switch {
	case c.Node.Region == "":
		fault("node.region", "is empty, and there are regions: %s", strings.Join(slices.Sorted(maps.Keys(m.Datacenters)), ", "))
	case slices.Contains(c.Regions.Out, c.Node.Region):
		fault("node.region", "%s is lost for good (regions.out): bring it back as a region that is added, and then take it out of regions.out", c.Node.Region)
	case !ok:
		fault("node.region", "%q is not in regions.datacenters, which has %s", c.Node.Region, strings.Join(slices.Sorted(maps.Keys(m.Datacenters)), ", "))
	case dc != c.Cassandra.Datacenter:
		fault("cassandra.datacenter", "is %s, and regions.datacenters says %s for region %s", c.Cassandra.Datacenter, dc, c.Node.Region)
	}
	if c.Regions.Keyspace == c.Cassandra.Keyspace {
		fault("regions.keyspace", "is that of everything else (cassandra.keyspace): regions need one of their own")
	}
	return faults
}

// Migration returns what a migration makes for the regions; nil: there are none. The configuration
// must be valid.
func (r Regions) Migration() *cassandra.Regions {
	m, err := r.Map()
	if err != nil || !r.Enabled() {
		return nil
	}
	return &cassandra.Regions{Keyspace: r.Keyspace, Copies: m.Copies, Homes: m.Homes.Names()}
}
