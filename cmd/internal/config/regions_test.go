package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// regional is a valid configuration of a node in eu.
func regional() Config {
	c := Default()
	c.Node.Name, c.Node.Region = "a", "eu"
	c.Cassandra.Hosts, c.Cassandra.Datacenter, c.NATS.URLs = []string{"c"}, "dc-eu", []string{"nats://n:4222"}
	c.Regions.Homes = []string{"eu=0-31+64-95", "us=32-63"}
	c.Regions.Datacenters = []string{"eu=dc-eu", "us=dc-us:2"}
	c.Regions.Witness, c.Regions.Tenants = "dc-w", []string{"acme=us"}
	return c
}

func TestRegions(t *testing.T) {
	c := regional()
	if err := c.Validate(); err != nil {
		t.Fatalf("Validate = %v, want nil", err)
	}
	m, err := c.Regions.Map()
	if err != nil {
		t.Fatal(err)
	}
	for shard, want := range map[schema.Shard]string{0: "eu", 31: "eu", 32: "us", 63: "us", 64: "eu", 95: "eu", 96: ""} {
		if got, _ := m.Homes.Of(shard); got != want {
			t.Errorf("home of shard %d = %q, want %q", shard, got, want)
		}
	}
	for tenant, want := range map[string]string{"acme": "us", "other": "eu"} {
		if got, _ := m.Homes.OfTenant(tenant); got != want {
			t.Errorf("home of tenant %s = %q, want %q", tenant, got, want)
		}
	}
	if want := map[string]int{"dc-eu": 3, "dc-us": 2, "dc-w": 1}; !reflect.DeepEqual(m.Copies, want) {
		t.Errorf("copies = %v, want %v", m.Copies, want)
	}
	c.Regions.API = []string{"us=https://a.test", "us=http://b.test:8080/carillon"}
	if m, err := c.Regions.Map(); err != nil || !reflect.DeepEqual(m.APIs, map[string][]string{"us": {"https://a.test", "http://b.test:8080/carillon"}}) {
		t.Errorf("APIs = %v, %v, want two of us", m.APIs, err)
	}
	c.Regions.Routes = []string{"*.US.test = us"}
	if m, err := c.Regions.Map(); err != nil || !reflect.DeepEqual(m.Routes, []bucketer.Route{{Host: "*.us.test", Home: "us"}}) {
		t.Errorf("routes = %v, %v, want one to us", m.Routes, err)
	}
	if got := c.Regions.Migration(); got == nil || got.Keyspace != "carillon_regions" || !reflect.DeepEqual(got.Homes, []string{"eu", "us"}) {
		t.Errorf("Migration = %+v, want the homes and the keyspace", got)
	}
	if got := Default().Regions.Migration(); got != nil || Default().Regions.Enabled() {
		t.Errorf("Migration without regions = %+v, want nil", got)
	}
}

func TestFaultsOfRegions(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Config)
		faults []string
	}{
		"no region of the node":      {func(c *Config) { c.Node.Region = "" }, []string{"node.region: is empty, and there are regions: eu, us"}},
		"an unknown one":             {func(c *Config) { c.Node.Region = "ap" }, []string{`node.region: "ap" is not in regions.datacenters, which has eu, us`}},
		"another data centre":        {func(c *Config) { c.Cassandra.Datacenter = "dc1" }, []string{"cassandra.datacenter: is dc1, and regions.datacenters says dc-eu for region eu"}},
		"a data centre without home": {func(c *Config) { c.Regions.Homes = nil }, []string{"regions.homes: names no home"}},
		"one region":                 {func(c *Config) { c.Regions.Datacenters = c.Regions.Datacenters[:1] }, []string{"regions.datacenters: names 1 regions", "regions.homes: home us has no region of its name"}},
		"a witness alone": {
			func(c *Config) { c.Regions = Regions{Witness: "w", Keyspace: "k", Durability: "home"} },
			[]string{"regions.datacenters: names 0 regions", "regions.homes: names no home"},
		},
		"all at once": {func(c *Config) {
			c.Regions = Regions{
				Homes: []string{"eu", "us=1-x"}, Datacenters: []string{"eu", "us=dc:0", "ap=dc1", "ap=dc2", "br=dc1"}, Witness: "dc1", Keyspace: "No", Durability: "hope",
			}
		}, []string{
			`regions.homes: "eu" is not a home`, `regions.homes: "us=1-x" is not a home`, `regions.datacenters: "eu" is not a region`, `regions.datacenters: "us=dc:0" is not a region`,
			"regions.datacenters: region ap is named twice", "regions.datacenters: dc1 is the data centre of two regions", "regions.witness: dc1 is the data centre of a region",
			`regions.keyspace: "No" is not`, `regions.durability: "hope" is not home or everywhere`,
		}},
		"shards": {
			func(c *Config) { c.Regions.Homes = []string{"eu=0-3", "us=3-5", "us=7"} },
			[]string{"regions.homes: shard 3 has two homes, eu and us", "regions.homes: home us is named twice", "regions.homes: shard 6 has no home"},
		},
		"tenants": {
			func(c *Config) { c.Regions.Tenants = []string{"a", "b=us", "b=eu", "c=ap"} },
			[]string{`regions.tenants: "a" is not a tenant and its home`, "regions.tenants: tenant b is named twice", "regions.tenants: tenant c has the home ap"},
		},
		"APIs": {
			func(c *Config) {
				c.Regions.API = []string{"eu=https://eu.test", "us=https://a.test", "us=http://b.test/carillon", "us=https://a.test", "eu", "ap=https://ap.test", "us=us.test", "us=https://u:p@us.test"}
			},
			[]string{
				"regions.api: region us has https://a.test twice", `regions.api: "eu" is not a region and the URL`, "regions.api: ap is none of the regions",
				`regions.api: region us: "us.test" is not an http or https URL`, `regions.api: region us: "https://u:p@us.test" has more than`,
			},
		},
		"routes": {
			func(c *Config) {
				c.Regions.Routes = []string{"*.eu.test=eu", "[=eu", "x.test", "y.test=ap", "=us"}
			},
			[]string{`regions.routes: "[=eu" is not a pattern`, `regions.routes: "x.test" is not`, `regions.routes: "y.test=ap": ap is none of regions.homes`, `regions.routes: "=us" is not`},
		},
		"automatic without a witness": {
			func(c *Config) { c.Regions.Automatic, c.Regions.Witness = true, "" },
			[]string{"regions.automatic: without region eu no quorum of the keyspace of regions is left"},
		},
		"automatic, and one region has most copies": {
			func(c *Config) {
				c.Regions.Automatic, c.Regions.Datacenters, c.Regions.Witness = true, []string{"eu=dc-eu:3", "us=dc-us:1"}, "dc-w:1"
			},
			[]string{"regions.automatic: without region eu no quorum"},
		},
		"automatic without regions": {
			func(c *Config) { c.Regions = Regions{Automatic: true, Keyspace: "k", Durability: "home"} },
			[]string{"regions.datacenters: names 0 regions", "regions.homes: names no home"},
		},
		"out": {
			func(c *Config) { c.Regions.Out = []string{"us", "us", "ap", "eu"} },
			[]string{`regions.out: "us" is none of the regions`, `regions.out: "ap" is none of the regions`, "regions.out: names all regions"},
		},
		"a node of a region that is out": {
			func(c *Config) { c.Regions.Out = []string{"eu"} },
			[]string{"node.region: eu is lost for good (regions.out)"},
		},
		"a bad witness":     {func(c *Config) { c.Regions.Witness = "dc w" }, []string{`regions.witness: "dc w" is not a data centre`}},
		"the same keyspace": {func(c *Config) { c.Regions.Keyspace = "carillon" }, []string{"regions.keyspace: is that of everything else"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := regional()
			test.change(&c)
			err := c.Validate()
			if err == nil {
				t.Fatalf("Validate = nil, want faults %q", test.faults)
			}
			for _, fault := range test.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("Validate = %v\nwant it to name %q", err, fault)
				}
			}
			if got := strings.Count(err.Error(), "\n") + 1; got != len(test.faults) {
				t.Errorf("Validate tells %d faults, want %d:\n%v", got, len(test.faults), err)
			}
		})
	}
}

// TestARegionThatIsLostForGood is none any more, and its data centre has no copies; its home stays.
func TestARegionThatIsLostForGood(t *testing.T) {
	c := regional()
	c.Regions.Automatic, c.Regions.Out, c.Regions.API = true, []string{"us"}, []string{"eu=https://eu.test", "us=https://us.test"}
	if err := c.Validate(); err != nil {
		t.Fatalf("Validate = %v, want nil", err)
	}
	m, err := c.Regions.Map()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Names(); !slices.Equal(got, []string{"eu"}) || len(m.APIs) != 1 || !reflect.DeepEqual(m.Copies, map[string]int{"dc-eu": 3, "dc-w": 1}) {
		t.Errorf("regions %v, APIs %v, copies %v; want eu alone, and no copies in dc-us", got, m.APIs, m.Copies)
	}
	if home, _ := m.Homes.Of(40); home != "us" || !slices.Equal(m.Homes.Names(), []string{"eu", "us"}) {
		t.Errorf("home of shard 40 = %q of %v, want us still", home, m.Homes.Names())
	}
	if home, _ := m.Homes.OfTenant("acme"); home != "us" {
		t.Errorf("home of tenant acme = %q, want us still", home)
	}
}

// TestAutomaticFailOverNeedsAQuorum: with a witness, or three regions, one is left without any region.
func TestAutomaticFailOverNeedsAQuorum(t *testing.T) {
	for name, change := range map[string]func(r *Regions){
		"a witness":     func(r *Regions) { r.Witness, r.Datacenters = "dc-w", []string{"eu=dc-eu", "us=dc-us"} },
		"three regions": func(r *Regions) { r.Witness, r.Datacenters = "", []string{"eu=dc-eu", "us=dc-us", "ap=dc-ap"} },
	} {
		c := regional()
		c.Regions.Automatic = true
		change(&c.Regions)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: Validate = %v, want nil", name, err)
		}
	}
}

// TestRegionsOfTheEnvironment: lists are separated by commas there.
func TestRegionsOfTheEnvironment(t *testing.T) {
	c, err := Load("", []string{
		"CARILLON_NODE_REGION=us", "CARILLON_CASSANDRA_HOSTS=c", "CARILLON_CASSANDRA_DATACENTER=dc-us", "CARILLON_NATS_URLS=nats://n:4222",
		"CARILLON_REGIONS_HOMES=eu=0-31,us=32-63", "CARILLON_REGIONS_DATACENTERS=eu=dc-eu,us=dc-us", "CARILLON_REGIONS_DURABILITY=everywhere",
	}, nil)
	if err != nil || !c.Regions.Enabled() || c.Regions.Durability != DurableEverywhere || len(c.Regions.Homes) != 2 {
		t.Errorf("Load = %+v, %v, want two homes, everywhere", c.Regions, err)
	}
}
