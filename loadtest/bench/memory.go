package bench

import (
	"context"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/process"
)

// Held is the memory of all processes of a kind together, in bytes.
type Held struct {
	RSS float64 `json:"rss"` // resident, as the kernel counts it
	// Heap, of Go nodes only, is what is in use right after a collection; Free is what the heap has besides and had not handed back to
	// the kernel by then, which RSS has in it.
	Heap float64 `json:"heap_inuse,omitempty"`
	Free float64 `json:"heap_free,omitempty"`
}

// Memory is what processes held before a wave was taken in, at rest with all that is resident, and right after its last run.
type Memory struct {
	Before Held `json:"before"`
	After  Held `json:"after"`
}

// Scans are the dispatchers' reads ahead during a wave. Each reads, of one shard, what falls due next.
type Scans struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P99   float64 `json:"p99_ms"` // upper bound of its bucket
}

// scansOf says how much the dispatchers scanned, from what their metrics grew by; nil if they did not.
func scansOf(d metrics.Values) *Scans {
	count := d[metricScan+"_count"]
	if count <= 0 {
		return nil
	}
	return &Scans{Count: int(count), Mean: 1000 * d[metricScan+"_sum"] / count, P99: 1000 * d.Histogram(metricScan).Quantile(0.99)}
}

// collectTimeout bounds the collection of a node's garbage: one that takes as long is not fit to be measured.
const collectTimeout = 30 * time.Second

// memory has the nodes collect their garbage and returns what every process holds then, by kind. It
// leaves out and logs what cannot be read.
func (b *bench) memory(ctx context.Context, sys system) map[string]Held {
	for _, url := range sys.profiles() {
		b.collect(ctx, url)
	}
	held := map[string]Held{}
	for member, pid := range b.processes(sys) {
		if pid == 0 {
			continue
		}
		rss, err := process.Resident(pid)
		if err != nil {
			b.cfg.Log.Warn("memory is not known", "member", member, "err", err)
			continue
		}
		held[kindOf(member)] = held[kindOf(member)].plus(Held{RSS: rss})
	}
	for _, node := range sys.nodes() {
		v, err := metrics.Read(ctx, b.client, node+"/metrics", scrapeTimeout)
		if err != nil {
			b.cfg.Log.Warn("the heap is not known", "node", node, "err", err)
			continue
		}
		held[nodeKind] = held[nodeKind].plus(heapOf(v))
	}
	return held
}

// heapOf returns the heap of a node.
func heapOf(v metrics.Values) Held {
	return Held{Heap: v[metricHeap], Free: v[metricHeapIdle] - v[metricHeapReleased]}
}

func (h Held) plus(more Held) Held {
	return Held{h.RSS + more.RSS, h.Heap + more.Heap, h.Free + more.Free}
}

// nodeKind is the kind of processes that Carillon nodes are.
const nodeKind = "carillon"

// kindOf returns the kind of a member: "cassandra" of "cassandra-2".
func kindOf(member string) string {
	kind, _, _ := strings.Cut(member, "-")
	return kind
}

// grown pairs what was held before and after, of the kinds that were there both times.
func grown(before, after map[string]Held) map[string]Memory {
	all := make(map[string]Memory, len(before))
	for kind, was := range before {
		if is, ok := after[kind]; ok {
			all[kind] = Memory{was, is}
		}
	}
	return all
}

// collect has the node behind a listener of profiles collect its garbage, as a profile of the heap
// may ask for. If it does not, the heap is larger than what is alive.
func (b *bench) collect(ctx context.Context, profiles string) {
	_, err := api.AskOK(ctx, b.client, api.Request{
		URL: profiles + "/debug/pprof/heap?gc=1", Timeout: collectTimeout, Most: mostProfile,
	})
	if err != nil {
		b.cfg.Log.Warn("garbage was not collected", "err", err)
	}
}
