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
	// Heap is what Go nodes have in use right after a collection. Free is what the heap has besides
	// and has not returned to the kernel; RSS includes it.
	Heap float64 `json:"heap_inuse,omitempty"`
	Free float64 `json:"heap_free,omitempty"`
}

// Memory is what processes held before a batch was sent, and right after its last run.
type Memory struct {
	Before Held `json:"before"`
	After  Held `json:"after"`
}

// Scans are the dispatchers' reads ahead during a batch. Each reads the next due rows of a shard.
type Scans struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P99   float64 `json:"p99_ms"` // upper bound of its bucket
}

// scansOf returns the scans in a growth of the nodes' counters; nil if there are none.
func scansOf(d metrics.Values) *Scans {
	count := d[metricScan+"_count"]
	if count <= 0 {
		return nil
	}
	return &Scans{Count: int(count), Mean: 1000 * d[metricScan+"_sum"] / count, P99: 1000 * d.Histogram(metricScan).Quantile(0.99)}
}

// collectTimeout bounds the garbage collection of a node.
const collectTimeout = 30 * time.Second

// memory has the nodes collect garbage and returns what every process holds then, by kind. It logs
// what it cannot read.
func (b *members) memory(ctx context.Context, sys system) map[string]Held {
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

// grown pairs two readings, of the kinds that are in both.
func grown(before, after map[string]Held) map[string]Memory {
	all := make(map[string]Memory, len(before))
	for kind, was := range before {
		if is, ok := after[kind]; ok {
			all[kind] = Memory{was, is}
		}
	}
	return all
}

// collect has a node collect garbage: its listener of profiles does so before a heap profile.
// Without that the heap reads larger than it is.
func (b *members) collect(ctx context.Context, profiles string) {
	_, err := api.AskOK(ctx, b.client, api.Request{
		URL: profiles + "/debug/pprof/heap?gc=1", Timeout: collectTimeout, Most: mostProfile,
	})
	if err != nil {
		b.cfg.Log.Warn("garbage was not collected", "err", err)
	}
}
