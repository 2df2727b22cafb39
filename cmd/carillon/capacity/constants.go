package capacity

import (
	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Grade says how reliable a constant is.
type Grade string

// The grades, best first.
const (
	Measured Grade = "measured" // the result of a command
	Derived  Grade = "derived"  // computed from measured figures alone
	Design   Grade = "design"   // set by the code or its configuration
	// Estimate is a guess, or a measurement that cannot be repeated: measure before you rely on it.
	Estimate Grade = "estimate"
)

// A Constant is a figure that plans use.
type Constant struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Grade  Grade   `json:"grade"`
	Source string  `json:"source"` // which command, page or file says so
}

// Machine and Day say where and when constants were measured, unless their source says otherwise.
const (
	Machine = "2 cores Intel Xeon, 23.5 GiB, everything on it; Cassandra 5.0.6 at replication 1, NATS 2.15.2 at one replica"
	Day     = "2026-11-21"
)

// The commands of the sources below. Results of carillon-load bench are in loadtest/RESULTS.md,
// under the heading that is named. A test compares the constants with that page.
const (
	benchHTTP  = "carillon-load bench C --rates 2000,7000 --span 15s (loadtest/RESULTS.md, Speed, earlier figures: CPU a run at 7,000/s)"
	benchNoop  = "carillon-load bench A --n 200000 (loadtest/RESULTS.md, Speed, earlier figures: CPU a run of the burn-down, 19,076 runs/s)"
	benchHerd  = "carillon-load bench B --targets noop --n 200000 (loadtest/RESULTS.md, Speed, earlier figures: 20,719 runs/s)"
	benchHeld  = "carillon-load bench F --targets http --n 10000 --ramp 7s --hold 30s (loadtest/RESULTS.md, Speed, F; 2 cores AMD EPYC, 2026-11-22)"
	byRole     = "deploy/local up --roles 1=bucketer --roles 2=dispatcher --roles 3=executor, 60,000 HTTP runs over 20 s on a machine busy with other things, so that only shares and bytes are used"
	onDisk     = "1 M lines by carillon-load gen --payload 200 --spread 10m and import, nodetool flush: size of the table's files; compacted within 2 %"
	slope      = "the same with payloads of 25, 200 and 1,000 random characters: within 1 % at all three"
	findings   = "measured once, and the command was not kept: one node, warm, client and Cassandra together"
	wire       = "the same 60,000 runs: bytes of each process's sockets (ss -ti)"
	benchPairs = "carillon-load bench regions (loadtest/RESULTS.md, Cost of regions; 2 cores AMD EPYC, 2026-11-27, 1,500/s, quiet)"
	idle       = "deploy/local up --shards 1024 and no jobs: CPU over about 20 s, divided by 1,198 statements a second"
)

type key int

// The constants, in the order of Table.
const (
	dispatchCPU key = iota
	executeHTTP
	executeNATS
	executeNoop
	natsHTTP
	natsNoop
	runCassandra
	runFill
	batchOf1
	batchOf10
	batchOf20
	batchOf100
	importCassandra
	importCarillon
	idleStatements
	idleCassandra
	idleDispatcher
	rowFixed
	rowByte
	rowRaw
	partitionCost
	outcomeBytes
	messageBytes
	importWire
	recordWire
	readWire
	natsWire
	callWire
	copyCassandra
	copyWire
	copyRest
	shardMeasured
	shardAdvised
	maxShards
	partitionBytes
	keyedWays
	chunkRows
	recordSpan
	recordRows
	cellAfter
	heldRows
	heldSpan
	leadSpan
	laneAdvised
	laneMeasured
	maxLanes
	laneBytes
	laneAim
	slotsAProcess
	slotBytes
	busy
	diskFull
	gossipMembers
	readingSpan
	pressedSpan
	keys // how many there are
)

// v is the constant's value.
func (k key) v() float64 { return table[k].Value }

// Table returns every constant.
func Table() []Constant { return append([]Constant(nil), table[:]...) }

var table = [keys]Constant{
	dispatchCPU: {"dispatcher, a run", 25, "µs CPU", Derived, benchHTTP + ": 98 and 100 µs for all of carillon; " + byRole + ", give the dispatcher 25 % of it"},
	executeHTTP: {"executor, an HTTP run", 74, "µs CPU", Derived, "the other 75 %"},
	executeNATS: {"executor, a NATS run", 60, "µs CPU", Estimate, "a no-op run and one message each way"},
	executeNoop: {"executor, a no-op run", 26, "µs CPU", Estimate, benchNoop + ": 34 µs for all of carillon; 75 % of it, as of HTTP runs"},
	natsHTTP:    {"NATS, a run at an even rate", 32, "µs CPU a replica", Measured, benchHTTP + ": 32 µs (67 µs at 2,000/s, where batches are smaller)"},
	natsNoop:    {"NATS, a run at saturation", 18, "µs CPU a replica", Measured, benchNoop + ": 18 µs"},

	runCassandra: {"Cassandra, a run without its import", 65, "µs CPU a replica", Measured, benchHTTP + ": 60 and 69 µs (185 and 205 µs at 2,000/s, 52 µs for no-op runs at saturation)"},
	runFill:      {"rows in a batch of outcomes there", 43.75, "rows", Derived, "7,000/s × 100 ms over 16 shards and one executor"},
	batchOf1:     {"a row in a batch of 1", 270, "µs CPU", Estimate, findings},
	batchOf10:    {"a row in a batch of 10", 80, "µs CPU", Estimate, findings},
	batchOf20:    {"a row in a batch of 20", 45, "µs CPU", Estimate, findings},
	batchOf100:   {"a row in a batch of 100", 26, "µs CPU", Estimate, findings},

	importCassandra: {"Cassandra, an imported line", 29, "µs CPU a replica", Measured, "carillon-load import of 1 M unkeyed lines, 200-byte payload: 28.6 s of CPU (at best 33 µs with carillon, bench import)"},
	importCarillon:  {"bucketer, an imported line", 12, "µs CPU", Measured, "the same: 11.5 s of CPU"},
	idleStatements:  {"statements of an idle shard", 1.367, "a second", Measured, "cmd/internal/sim, counted (loadtest/gate/figures.json, StatementsOfJobs idle: Entries, EntryIDs, LimitsWithWaiters, AdvanceCursor of four shards)"},
	idleCassandra:   {"Cassandra, an idle statement", 350, "µs CPU a replica read", Measured, idle},
	idleDispatcher:  {"dispatcher, an idle statement", 160, "µs CPU", Measured, idle},

	rowFixed:      {"row on disk without its payload", 20, "bytes", Measured, onDisk + "; jobs that look alike, compressed"},
	rowByte:       {"row on disk, for each byte of payload", 1.03, "bytes", Derived, slope + "; random text does not compress"},
	rowRaw:        {"row before compression, without its payload", 200, "bytes", Measured, onDisk + ", divided by its compression ratio 0.553"},
	partitionCost: {"partition on disk, beside its rows", 145, "bytes", Derived, "200,000 rows over 24 h in partitions of nine: 238 bytes a row instead of 222"},
	outcomeBytes:  {"outcome on disk", 76, "bytes", Measured, byRole + ", flushed: 4,560,236 bytes for 60,000 rows (250 each before compression); answers without a body"},
	messageBytes:  {"message in a stream, without its payload", 319, "bytes a replica", Measured, "jsz while runs of 200 bytes wait: 518.7 bytes a message"},
	importWire:    {"import to Cassandra, without the payload", 257, "bytes", Measured, "457 bytes a line of 200 (ss -ti)"},
	recordWire:    {"outcome to Cassandra", 361, "bytes", Measured, wire},
	readWire:      {"rows read by scan, sweep and look", 679, "bytes", Measured, wire + ": 1,079 with two times 200 bytes of payload; the look was for runs late on a busy machine"},
	natsWire:      {"to and from NATS, without the payload", 1063, "bytes", Measured, wire + ": 1,463 with two times 200 bytes of payload; notices and acks in it"},
	copyCassandra: {"Cassandra of another region, a run with its import", 82, "µs CPU a replica", Derived, benchPairs + ": medians of us/cassandra, 128 µs with regions, less 46 µs of one that shares nothing"},
	copyWire:      {"between two regions, a run without its payload", 502, "bytes", Measured, benchPairs + ": what the link from the serving region carries, what it carries at rest taken off"},
	copyRest:      {"between two regions, at rest", 2646, "bytes a second", Measured, benchPairs + ": the link from the serving region, two nodes in each"},
	callWire:      {"HTTP call and answer, without the payload", 600, "bytes", Estimate, "heads of a call and of an empty answer"},

	shardMeasured: {"runs through one shard", 1290, "runs/s", Derived, benchHerd + " over 16 shards"},
	shardAdvised:  {"runs for which a shard is planned", 200, "runs/s", Design, "carillon migrate --shards"},
	maxShards:     {"shards, at most", schema.MaxShards, "shards", Design, "schema.MaxShards: 12 bits of an id"},
	partitionBytes: {
		"partition, at most", bucketer.MaxPartitionBytes, "bytes", Design, "bucketer.MaxPartitionBytes: intake refuses more",
	},
	keyedWays:  {"shards of one tenant's keyed lines in a minute", 8, "shards", Design, "bucketer, keyedWays"},
	chunkRows:  {"unkeyed lines of a minute for each shard in turn", 64, "rows", Design, "bucketer, spreadRows"},
	recordSpan: {"time for which an outcome waits for others", 0.1, "s", Design, "executor, recordWithin"},
	recordRows: {"rows in a batch of outcomes, at most", 100, "rows", Design, "executor, recordRows"},
	cellAfter:  {"time after which a run's session is written too", 1, "s", Design, "executor, ackAfter: the row is counted as an outcome in CPU and on the wire, and not on disk"},
	heldRows:   {"runs that a dispatcher holds", 25_000, "runs", Design, "dispatcher, maxHeldAll"},
	heldSpan:   {"time for which it holds one", 1.5, "s", Design, "dispatcher: scanned 1.75 s ahead, published 0.25 s ahead"},
	leadSpan:   {"time in a stream beside the run's", 0.65, "s", Design, "dispatcher/depth: Lead, and targetSpan"},

	laneAdvised:   {"runs for which a lane is planned", 10_000, "runs/s", Estimate, "half of what one stream without replicas has carried"},
	laneMeasured:  {"runs through one lane", 20_700, "runs/s", Measured, benchHerd + "; never with replicas at such a rate"},
	maxLanes:      {"lanes, at most", 64, "lanes", Design, "cmd/internal/config, nats.lanes"},
	laneBytes:     {"stream, at most", 512 << 20, "bytes a replica", Design, "jetstream.DefaultMaxBytes"},
	laneAim:       {"messages that wait in a subject, at most", 10_000, "messages", Design, "dispatcher/depth, maxTarget"},
	slotsAProcess: {"slots of one executor, at most", 20_000, "slots", Estimate, "over HTTP/1.1 each is an open file, of which a process may have 20,000 where it was tried; over HTTP/2 100,000 calls were in flight (loadtest/RESULTS.md)"},
	slotBytes:     {"memory of a busy slot", 42 << 10, "bytes", Measured, benchHeld + ": 42 KiB over HTTP/1.1, resident; 36 KiB over HTTP/2, of 100,000"},

	busy:          {"part of the cores that may be busy", 0.5, "", Estimate, "room for herds, compaction, repair, and one member less"},
	diskFull:      {"part of a disk that may be full", 0.5, "", Estimate, "tiered compaction may need as much again for a while"},
	gossipMembers: {"members of one ring, as far as believed", 500, "members", Estimate, "memberlist's own users; here up to 8 were run"},
	readingSpan:   {"time in which a dispatcher reads every busy subject, at most", 1, "s", Design, "dispatcher/depth, ReadEvery"},
	pressedSpan:   {"time in which all dispatchers read it once, where runs wait or many are published", 0.1, "s", Design, "dispatcher/depth, ReadPressed"},
}
