package httpapi

import "carillon.dev/carillon/schema"

// Cluster is what a node sees of its cluster.
type Cluster struct {
	Node    string   `json:"node" doc:"The node that answers"`
	Version string   `json:"version"`
	Members []Member `json:"members"`
	Shards  []Shard  `json:"shards"`
	Regions []Region `json:"regions"`
}

// lists returns c with a list, if an empty one, where c has none: an answer never says null for a
// list.
func (c Cluster) lists() Cluster {
	c.Members, c.Shards, c.Regions = append([]Member{}, c.Members...), append([]Shard{}, c.Shards...), append([]Region{}, c.Regions...)
	for i := range c.Members {
		c.Members[i].Roles = append([]string{}, c.Members[i].Roles...)
	}
	return c
}

// Member is a node of the cluster.
type Member struct {
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	API     string   `json:"api,omitempty" doc:"Base URL of its API, if it serves one"`
	Roles   []string `json:"roles"`
	// Unhealthy: its roles lack that of a dispatcher meanwhile.
	Unhealthy bool   `json:"unhealthy,omitempty" doc:"It would dispatch, but reaches Cassandra or NATS no more: others have its shards"`
	Zone      string `json:"zone,omitempty"`
	Region    string `json:"region,omitempty"`
	Version   string `json:"version,omitempty"`
}

// Shard is a shard, its owner, and how far it has come.
type Shard struct {
	Shard         schema.Shard `json:"shard"`
	Owner         string       `json:"owner,omitempty"`
	Epoch         int64        `json:"epoch"`
	Dispatched    Time         `json:"dispatched" doc:"Every bucket that ends by then has been published whole"`
	Settled       Time         `json:"settled" doc:"Every bucket that ends by then is finished"`
	BehindSeconds float64      `json:"behind_seconds" doc:"Now less dispatched"`
}

// Region is a region and the shards that are at home in it.
type Region struct {
	Name  string `json:"name"`
	Local bool   `json:"local,omitempty"`
	Epoch int64  `json:"epoch"`
}
