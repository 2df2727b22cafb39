package capacity

import (
	"cmp"
	"math"
	"slices"

	"carillon.dev/carillon/schema"
)

// A Limit is a resource that is used up when the rate grows and the plan's machines stay the same.
type Limit struct {
	What  string  `json:"what"`
	Times float64 `json:"times"` // the multiple of the planned rate at which it is used up
	Lift  string  `json:"lift"`  // what helps
	// Ceiling says that more machines do not help: the code or the data layout must change.
	Ceiling bool `json:"ceiling"`
}

// FirstLimits returns the limits that are reached below the given multiple of the rate, or else the
// nearest one.
func (p *Plan) FirstLimits(times float64) []Limit {
	n := 0
	for n < len(p.Limits) && p.Limits[n].Times < times {
		n++
	}
	return p.Limits[:max(n, 1)]
}

// limits returns all limits. CPU is used up when all cores are busy, a disk when it is full, slots
// when all are taken; the region carries what it must. The bound of runs that a dispatcher holds is
// no limit: beyond it dispatchers read closer to the due time.
func (p *Plan) limits() []Limit {
	d := p.Demand
	all := func(m Machines) float64 { return float64(m.Count * d.Cores) }
	limits := []Limit{
		{"executors: CPU", all(p.Executors) / p.Executors.Busy, "more executors", false},
		{"executors: slots", float64(p.Executors.Count*p.SlotsEach) / p.InFlight, "executor.slots, then more executors", false},
		{"dispatchers: CPU", p.grow(p.Carried, p.dispatcherCores, all(p.Dispatchers)), "more dispatchers", false},
		{"bucketers: CPU", all(p.Bucketers) / p.Bucketers.Busy, "more bucketers", false},
		{"Cassandra: CPU", p.grow(d.Rate, p.cassandraCores, all(p.Cassandra)), "more nodes; fewer executors or shards, so that batches fill", false},
		{"Cassandra: disk", p.diskTimes(), "more nodes or disks; a shorter retention", false},
		{"NATS: CPU", all(p.NATS) / p.NATS.Busy, "more servers, with lanes to spread", false},
		{"NATS: lanes", float64(p.Lanes) * laneMeasured.v() / p.Carried, "nats.lanes, up to 64", false},
		{"shards: rate seen through one", float64(p.Shards) * shardMeasured.v() / d.Rate, "more shards, up to 4096", false},
		{"shards: bytes of a partition", partitionBytes.v() / p.PartitionBytes, "more shards, up to 4096", false},

		{"4096 shards at the rate seen through one", maxShards.v() * shardMeasured.v() / d.Rate, "a faster shard", true},
		{"4096 shards at 64 MiB a minute", maxShards.v() * partitionBytes.v() / (d.Rate * schema.BucketSpan.Seconds() * d.rawRow()), "smaller payloads; shorter buckets", true},
		{"64 lanes at the rate seen through one", maxLanes.v() * laneMeasured.v() / p.Carried, "more lanes in code; more regions", true},
		{"members of one ring", gossipMembers.v() / float64(p.Executors.Count+p.Dispatchers.Count+p.Bucketers.Count), "larger machines; more regions", true},
	}
	slices.SortStableFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Times, b.Times) })
	return limits
}

// KeyedRate returns how many keyed runs of one tenant may be due per second. They share few shards,
// and each shard has a bound of rate and bytes. More machines do not help; more tenants, lines
// without keys, or more shards for keyed lines in the code do.
func KeyedRate(payload int) float64 {
	byBytes := partitionBytes.v() / (Demand{Payload: payload}).rawRow() / schema.BucketSpan.Seconds()
	return keyedWays.v() * min(shardMeasured.v(), byBytes)
}

// diskTimes returns the multiple at which disks are full. The rows of jobs that are not due yet do
// not grow with the rate.
func (p *Plan) diskTimes() float64 {
	retained, resident := p.storeBytes(p.Demand.Rate)
	return (float64(p.Cassandra.Count)*p.Demand.Disk - resident) / retained
}

// grow returns the multiple of rate at which cost, which grows with it, reaches bound.
func (p *Plan) grow(rate float64, cost func(rate float64) float64, bound float64) float64 {
	low, high := 0.0, 1.0
	for cost(rate*high) < bound && high < 1e12 {
		low, high = high, high*2
	}
	for range 100 {
		middle := (low + high) / 2
		if cost(rate*middle) < bound {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Round(low*1e6) / 1e6
}
