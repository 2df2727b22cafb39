package httpapi

import "carillon.dev/carillon/schema"

// Cluster is what a node sees of its cluster.
type Cluster struct {
	Node    string   `json:"node" doc:"The node that answers"`
	Version string   `json:"version"`
	AsOf    Time     `json:"as_of,omitzero" doc:"When members, store and queue were asked: they are asked once a second at most"`
	Members []Member `json:"members"`
	Lost    []Lost   `json:"lost,omitempty" doc:"Nodes that went without a word within a day, as the node that answers saw it, and are not back, by name; absent if there are none. A node that has begun since does not know of them"`
	Shards  []Shard  `json:"shards"`
	// A store that does not answer tells no cursors.
	ShardsAsOf Time          `json:"shards_as_of,omitzero" doc:"When the cursors of the shards were read; long ago, or absent, where the store does not answer"`
	Regions    []Region      `json:"regions"`
	Store      ClusterHealth `json:"store" doc:"Cassandra, as the node that answers reaches it"`
	Queue      QueueHealth   `json:"queue" doc:"NATS, as the node that answers reaches it"`
}

// lists returns c with a list, if an empty one, where c has none: an answer never says null for a
// list.
func (c Cluster) lists() Cluster {
	c.Members, c.Shards, c.Regions = append([]Member{}, c.Members...), append([]Shard{}, c.Shards...), append([]Region{}, c.Regions...)
	for i := range c.Members {
		m := &c.Members[i]
		m.Roles, m.Checks = append([]string{}, m.Roles...), append([]Check{}, m.Checks...)
	}
	c.Store.Hosts, c.Queue.Hosts = append([]Host{}, c.Store.Hosts...), append([]Host{}, c.Queue.Hosts...)
	return c
}

// Member is a node of the cluster.
type Member struct {
	Name    string   `json:"name"`
	Address string   `json:"address,omitempty"`
	API     string   `json:"api,omitempty" doc:"Base URL of its API, if it serves one"`
	Roles   []string `json:"roles"`
	// Unhealthy: its roles lack that of a dispatcher meanwhile.
	Unhealthy bool   `json:"unhealthy,omitempty" doc:"It would dispatch, but reaches Cassandra or NATS no more: others have its shards, if there is a dispatcher that is healthy"`
	Zone      string `json:"zone,omitempty"`
	Region    string `json:"region,omitempty"`
	Version   string `json:"version,omitempty"`
	// Labels are those of its executor.
	Labels schema.Labels `json:"labels,omitempty" doc:"Those of its executor, which work may require"`

	Ready     bool          `json:"ready" doc:"Every check is well, by its own word. One that did not answer within a second is not: it is frozen, cut off, busy, or of a version that does not know the question"`
	Checks    []Check       `json:"checks" doc:"The lines of its /readyz. Of one that did not answer: the check called answer alone"`
	Slots     *Slots        `json:"slots,omitempty" doc:"Of an executor that answered"`
	Waiting   []WaitingRuns `json:"waiting,omitempty" doc:"Runs that are due and wait, as far as the node knows, the most first; absent if there are none. No run is told of by two nodes. A node that has just begun does not know those that it deferred before"`
	StartedAt Time          `json:"started_at,omitzero" doc:"When its process began, if it answered"`
}

// Lost is a node that was given up for dead.
type Lost struct {
	Name  string `json:"name"`
	Since Time   `json:"since"`
}

// Check is how something stands that a node needs.
type Check struct {
	Name    string `json:"name" example:"store"`
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty" doc:"What is wrong; or what its operator should know although it is well"`
}

// Slots are the attempts that an executor may have under way at once.
type Slots struct {
	Total   int `json:"total"`
	Used    int `json:"used"`
	Waiting int `json:"waiting" doc:"Attempts that wait for one"`
}

// WaitingRuns are runs that are due and wait, for one reason.
type WaitingRuns struct {
	Tenant string `json:"tenant,omitempty" doc:"Absent if they are of several"`
	Task   string `json:"task,omitempty" doc:"Their task, if they are of one"`
	Job    string `json:"job,omitempty" doc:"The name of their job, if they are of no task or wait for its limit"`
	Reason string `json:"reason" doc:"A word, as of a run that waits: concurrency, rate, limit, quota, breaker, target_share, tenant_share, region, pool. executors: they wait until executors take more"`
	Runs   int64  `json:"runs"`
	More   bool   `json:"more,omitempty" doc:"There may be more"`
	Oldest Time   `json:"oldest_due_at" doc:"Since when the first of them is due"`
}

// ClusterHealth is how the servers stand that the cluster shares.
type ClusterHealth struct {
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty" doc:"Why it is not"`
	Hosts   []Host `json:"hosts" doc:"Each was asked for its time. Empty where it is in the process of the node. A NATS server that does not tell its time is not in the list"`
}

// QueueHealth is how NATS stands, and what lies in it.
type QueueHealth struct {
	ClusterHealth
	Waiting *int `json:"waiting,omitempty" doc:"Messages that no executor holds yet; absent where it is not well"`
	Held    *int `json:"held,omitempty" doc:"Messages with executors, of runs that have not ended"`
}

// Host is a server of Cassandra or NATS.
type Host struct {
	Name    string `json:"name" doc:"As the configuration calls it, or its address"`
	Up      bool   `json:"up" doc:"It answered within a second"`
	Message string `json:"message,omitempty" doc:"Why it is not"`
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

// Regions is which homes of shards there are, and who serves them.
type Regions struct {
	Region string `json:"region,omitempty" doc:"Of the node that answers; absent without regions"`
	Homes  []Home `json:"homes" doc:"Empty without regions"`
}

// Home is a set of shards that one region serves at a time.
type Home struct {
	Name   string `json:"name" doc:"It is called after the region that served it first"`
	Region string `json:"region,omitempty" doc:"The region that serves it; absent where the node that answers cannot learn it"`
	Epoch  int64  `json:"epoch" doc:"It grows by one whenever another region is to serve the home"`
	Served bool   `json:"served" doc:"The region of the node that answers may act for it now"`
	// LeaseAge is absent if nothing was ever read.
	LeaseAge *float64 `json:"lease_age_seconds,omitempty" doc:"How long ago the node asked who serves it, by the last time that was answered: after 10 s it knows no more"`
	Message  string   `json:"message,omitempty" doc:"Why it is not served, and what to do"`
}

// Region is a region and the shards that are at home in it.
type Region struct {
	Name  string `json:"name"`
	Local bool   `json:"local,omitempty"`
	Epoch int64  `json:"epoch"`
}
