package capacity

import (
	"math"

	"carillon.dev/carillon/schema"
)

// A Plan is what a demand needs. Machines, slots and bytes are those of one region, unless a field
// says otherwise; every region needs the same.
type Plan struct {
	Demand Demand `json:"demand"`
	// Carried is the rate that a region must carry: more than its share, if another may be lost.
	Carried float64 `json:"carried"`

	Shards         int     `json:"shards"` // of all regions
	RunsAShard     float64 `json:"runs_a_shard"`
	PartitionRows  float64 `json:"partition_rows"`  // of one minute that has just ended
	PartitionBytes float64 `json:"partition_bytes"` // before compression, as intake counts

	Executors   Machines `json:"executors"`
	InFlight    float64  `json:"in_flight"`    // attempts under way: rate × duration
	Slots       int      `json:"slots"`        // with head-room
	SlotsEach   int      `json:"slots_each"`   // executor.slots
	SlotsMemory float64  `json:"slots_memory"` // bytes of one executor
	Dispatchers Machines `json:"dispatchers"`
	Bucketers   Machines `json:"bucketers"`

	Cassandra  Machines `json:"cassandra"`
	BatchRows  float64  `json:"batch_rows"`   // outcomes in one batch
	BytesARun  float64  `json:"bytes_a_run"`  // on disk: row and outcome, one replica
	BytesStore float64  `json:"bytes_store"`  // on disk, all replicas
	BytesANode float64  `json:"bytes_a_node"` //
	NodesFor   string   `json:"nodes_for"`    // what decides their number: replicas, cpu or disk
	Idle       float64  `json:"idle"`         // statements a second when nothing is due, of all regions

	NATS         Machines `json:"nats"`
	Lanes        int      `json:"lanes"`
	MessageBytes float64  `json:"message_bytes"` // one replica
	StreamBytes  float64  `json:"stream_bytes"`  // at an even rate, all replicas
	StreamMost   float64  `json:"stream_most"`   // what the streams may grow to, all replicas
	StreamWrite  float64  `json:"stream_write"`  // bytes a second, all replicas
	// Readings are those of streams by dispatchers, per second, if all four priorities are busy.
	Readings float64 `json:"readings"`

	// KeyedRate is how many keyed runs per second of one tenant fit its shards, on any machines.
	KeyedRate float64 `json:"keyed_rate"`

	Network Network `json:"network"`
	Copies  Copies  `json:"copies"`
	Limits  []Limit `json:"limits"` // the nearest limits, the first one first
}

// Machines are the machines of one part, in one region.
type Machines struct {
	Count int     `json:"count"`
	Busy  float64 `json:"busy_cores"` // of all of them together
}

// Network is what a region moves, bytes a second.
type Network struct {
	Cassandra float64 `json:"cassandra"` // between carillon and Cassandra, and between its nodes
	NATS      float64 `json:"nats"`      // between carillon and NATS, and between its servers
	Calls     float64 `json:"calls"`     // to the callees
	Regions   float64 `json:"regions"`   // to the other regions
}

// Copies are what a region has of the runs of the others, while all regions are well. It is in the
// machines and bytes above: there a region is planned that carries more, after another was lost.
type Copies struct {
	Cassandra float64 `json:"cassandra_busy_cores"` // of all replicas
	Bytes     float64 `json:"bytes_stored"`         // of all replicas
	Network   float64 `json:"network"`              // that comes from them, bytes a second
}

// Make plans for a demand that is valid.
func Make(d Demand) (Plan, error) {
	if err := d.Validate(); err != nil {
		return Plan{}, err
	}
	p := Plan{Demand: d, Carried: d.carried()}
	p.placement()
	p.executors()
	p.dispatchers()
	p.bucketers()
	p.cassandra()
	p.nats()
	p.network()
	p.copies()
	p.KeyedRate = KeyedRate(d.Payload)
	p.Limits = p.limits()
	return p, nil
}

// leastShards is enough for a few shards on each of a few dispatchers.
const leastShards = 16

// placement decides the number of shards: the least power of two with which a shard keeps to the
// advised rate and a partition is at most half full. Fewer shards are better, because a batch of
// outcomes is of one shard.
func (p *Plan) placement() {
	d := p.Demand
	most := int(maxShards.v())
	wanted := max(d.Rate/shardAdvised.v(), d.Rate*schema.BucketSpan.Seconds()*d.rawRow()/(partitionBytes.v()/2))
	p.Shards = leastShards
	for float64(p.Shards) < wanted && p.Shards < most {
		p.Shards *= 2
	}
	p.RunsAShard = d.Rate / float64(p.Shards)
	p.PartitionRows = p.RunsAShard * schema.BucketSpan.Seconds()
	p.PartitionBytes = p.PartitionRows * d.rawRow()
}

// rawRow is a row before compression, bytes.
func (d Demand) rawRow() float64 { return rowRaw.v() + float64(d.Payload) }

// inline is the payload that travels with a run through scans and streams.
func (d Demand) inline() float64 {
	if d.Payload > schema.InlinePayload {
		return 0
	}
	return float64(d.Payload)
}

// cores turns µs of CPU a run into cores.
func cores(rate, micros float64) float64 { return rate * micros / 1e6 }

// machines returns how many machines carry so many busy cores at the advised load.
func (d Demand) machines(busyCores float64) int {
	return int(math.Ceil(busyCores / (float64(d.Cores) * busy.v())))
}

// executors plans one executor more than needed, so that one may fail.
func (p *Plan) executors() {
	d := p.Demand
	p.InFlight = p.Carried * d.Duration.Seconds()
	p.Slots = int(math.Ceil(p.InFlight / busy.v()))
	p.Executors.Busy = cores(p.Carried, d.executeCPU())
	need := max(d.machines(p.Executors.Busy), ceilDiv(float64(p.Slots), slotsAProcess.v()), 1)
	p.Executors.Count = need + 1
	p.SlotsEach = ceilDiv(float64(p.Slots), float64(need))
	p.SlotsMemory = float64(p.SlotsEach) * slotBytes.v()
}

// dispatchers plans one dispatcher more than needed. CPU goes with runs and shards; memory bounds
// the runs held between scan and publication.
func (p *Plan) dispatchers() {
	p.Idle = idleStatements.v() * float64(p.Shards)
	p.Dispatchers.Busy = p.dispatcherCores(p.Carried)
	need := max(p.Demand.machines(p.Dispatchers.Busy), ceilDiv(p.Carried*heldSpan.v(), heldRows.v()), 1)
	p.Dispatchers.Count = need + 1
}

// dispatcherCores counts every shard, because those of a lost region are scanned too.
func (p *Plan) dispatcherCores(rate float64) float64 {
	return cores(rate, dispatchCPU.v()) + cores(p.Idle, idleDispatcher.v())
}

func (p *Plan) bucketers() {
	p.Bucketers.Busy = cores(p.Carried, importCarillon.v())
	p.Bucketers.Count = max(p.Demand.machines(p.Bucketers.Busy), 1) + 1
}

// cassandra plans nodes that write for all regions, because every region holds every row.
func (p *Plan) cassandra() {
	d := p.Demand
	p.BatchRows = p.batchRows(d.Rate)
	p.Cassandra.Busy = p.cassandraCores(d.Rate)
	retained, resident := p.storeBytes(d.Rate)
	p.BytesARun = d.rowBytes(p.PartitionRows) + outcomeBytes.v()
	p.BytesStore = retained + resident
	nodes := d.Replication
	p.NodesFor = "replicas"
	for _, by := range []struct {
		nodes int
		what  string
	}{
		{d.machines(p.Cassandra.Busy), "cpu"},
		{ceilDiv(p.BytesStore, d.Disk*diskFull.v()), "disk"},
	} {
		if by.nodes > nodes {
			nodes, p.NodesFor = by.nodes, by.what
		}
	}
	// as many in each rack
	p.Cassandra.Count = ceilDiv(float64(nodes), float64(d.Replication)) * d.Replication
	p.BytesANode = p.BytesStore / float64(p.Cassandra.Count)
}

// rowBytes is a row on disk, bytes, where a partition holds so many.
func (d Demand) rowBytes(rows float64) float64 {
	return rowFixed.v() + rowByte.v()*float64(d.Payload) + partitionCost.v()/max(rows, 1)
}

// storeBytes returns the bytes on the disks of a region: retained runs, and runs that are not due
// yet.
func (p *Plan) storeBytes(rate float64) (retained, resident float64) {
	d := p.Demand
	replicas := float64(d.Replication)
	ahead := d.Resident / (d.Ahead.Seconds() / schema.BucketSpan.Seconds() * float64(p.Shards))
	retained = rate * d.Retention.Seconds() * (d.rowBytes(p.PartitionRows) + outcomeBytes.v()) * replicas
	return retained, d.Resident * d.rowBytes(ahead) * replicas
}

// batchRows returns the mean number of outcomes in a batch. Each executor writes one batch a shard
// every recordSpan, unless it is empty. With λ arrivals in that time, at random, and a region's
// part of runs and shards:
//
//	rows = λ ÷ (1 − e^−λ), at least 1
func (p *Plan) batchRows(rate float64) float64 {
	lambda := rate * recordSpan.v() / float64(p.Executors.Count*p.Shards)
	return min(lambda/-math.Expm1(-lambda), recordRows.v())
}

// batchCost returns the CPU of a row in a batch, µs. Between the measured sizes it is linear in
// 1/rows, as a cost for each statement is.
func batchCost(rows float64) float64 {
	points := []struct{ rows, cost float64 }{
		{100, batchOf100.v()}, {20, batchOf20.v()}, {10, batchOf10.v()}, {1, batchOf1.v()},
	}
	inverse := 1 / min(max(rows, 1), points[0].rows)
	for i := 1; ; i++ {
		from, to := points[i-1], points[i]
		if inverse > 1/to.rows && i < len(points)-1 {
			continue
		}
		part := (inverse - 1/from.rows) / (1/to.rows - 1/from.rows)
		return from.cost + part*(to.cost-from.cost)
	}
}

// attemptRows returns how many rows a run writes in batches: its outcome, and its session if it
// takes longer than cellAfter. Every run counts as long as the mean.
func (d Demand) attemptRows() float64 {
	if d.Duration.Seconds() > cellAfter.v() {
		return 2
	}
	return 1
}

// cassandraCores returns the busy cores of a region's nodes at a rate of all regions. The cost of a
// row in a batch was measured together with the client, and counts for Cassandra alone; executors
// are planned without the extra cost of small batches. Every replica counts as if it got every
// request. The rest of a run's cost was measured at one rate, and is higher at lower ones
// (lowRates).
func (p *Plan) cassandraCores(rate float64) float64 {
	d := p.Demand
	// Sessions go into partitions and instants of their own, so they fill batches as outcomes do,
	// and not each other's.
	micros := runCassandra.v() + d.attemptRows()*batchCost(p.batchRows(rate)) - batchCost(runFill.v()) + importCassandra.v()
	quorum := float64(d.Replication/2 + 1)
	return float64(d.Replication)*cores(rate, micros) + quorum*cores(p.Idle, idleCassandra.v())
}

// nats plans one server more than needed, and at least as many as replicas.
func (p *Plan) nats() {
	d := p.Demand
	replicas := p.streamReplicas()
	p.NATS.Busy = replicas * cores(p.Carried, d.natsCPU())
	p.NATS.Count = max(d.machines(p.NATS.Busy), 1)
	if d.Replication > 1 {
		p.NATS.Count = max(p.NATS.Count+1, int(replicas))
	}
	p.Lanes = min(ceilDiv(p.Carried, laneAdvised.v()), int(maxLanes.v()))
	p.MessageBytes = messageBytes.v() + d.inline()
	p.StreamBytes = p.Carried * (leadSpan.v() + min(d.Duration.Seconds(), cellAfter.v())) * p.MessageBytes * replicas
	p.StreamMost = float64(p.Lanes) * laneBytes.v() * replicas
	p.StreamWrite = p.Carried * p.MessageBytes * replicas
	p.Readings = float64(p.Lanes*len(schema.Priorities)) * max(float64(p.Dispatchers.Count)/readingSpan.v(), 1/pressedSpan.v())
}

// streamReplicas returns the replicas of a stream: the program asks for at most three.
func (p *Plan) streamReplicas() float64 { return float64(min(p.Demand.Replication, 3)) }

// network returns the traffic of a region: reads and writes of its own runs, and copies of the rows
// of all regions between its nodes.
func (p *Plan) network() {
	d := p.Demand
	written := importWire.v() + float64(d.Payload) + d.attemptRows()*recordWire.v()
	copies := float64(d.Replication - 1)
	p.Network = Network{
		Cassandra: p.Carried*(written+readWire.v()+2*d.inline()) + d.Rate*copies*written,
		NATS:      p.Carried * (natsWire.v() + 2*d.inline() + (p.streamReplicas()-1)*p.MessageBytes),
		Regions:   d.abroad()*p.copyBytes() + float64(d.Regions-1)*copyRest.v(),
	}
	if d.Kind == HTTP {
		p.Network.Calls = p.Carried * (callWire.v() + float64(d.Payload))
	}
}

// abroad is the rate of copies that a region sends, or gets, while all are well: the runs of one,
// once to each of the others.
func (d Demand) abroad() float64 { return d.Rate / float64(d.Regions) * float64(d.Regions-1) }

// copyBytes are those of a run on the way to another region: its row once, and what attempts write.
func (p *Plan) copyBytes() float64 {
	d := p.Demand
	return copyWire.v() + float64(d.Payload) + (d.attemptRows()-1)*recordWire.v()
}

// copies plans what a region does for the runs of the others. Each of its replicas writes them.
func (p *Plan) copies() {
	d := p.Demand
	p.Copies = Copies{
		Cassandra: float64(d.Replication) * cores(d.abroad(), copyCassandra.v()),
		Bytes:     p.BytesStore * float64(d.Regions-1) / float64(d.Regions),
		Network:   p.Network.Regions,
	}
}

func ceilDiv(a, b float64) int { return int(math.Ceil(a / b)) }
