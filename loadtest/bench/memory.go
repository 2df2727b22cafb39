package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
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
func scansOf(d values) *Scans {
	count := d[metricScan+"_count"]
	if count <= 0 {
		return nil
	}
	return &Scans{Count: int(count), Mean: 1000 * d[metricScan+"_sum"] / count, P99: 1000 * quantile(d.histogram(metricScan), 0.99)}
}

// collectTimeout bounds the collection of a node's garbage: one that takes as long is not fit to be measured.
const collectTimeout = 30 * time.Second

// memory has the nodes collect their garbage and returns what every process holds then, by kind. What cannot be read is left out, and
// told of.
func (b *bench) memory(ctx context.Context, sys system) map[string]Held {
	for _, url := range sys.profiles() {
		if err := b.collect(ctx, url); err != nil {
			b.cfg.Log.Warn("garbage was not collected: the heap is larger than what is alive", "err", err)
		}
	}
	held := map[string]Held{}
	for member, pid := range b.processes(sys) {
		if pid == 0 {
			continue
		}
		bytes, err := residentOf(pid)
		if err != nil {
			b.cfg.Log.Warn("memory is not known", "member", member, "err", err)
			continue
		}
		kind := kindOf(member)
		h := held[kind]
		h.RSS += bytes
		held[kind] = h
	}
	s := newScraper(b.client)
	for _, node := range sys.nodes() {
		v, err := s.metrics(ctx, node+"/metrics")
		if err != nil {
			b.cfg.Log.Warn("the heap is not known", "node", node, "err", err)
			continue
		}
		h := held[nodeKind]
		h.Heap += v[metricHeap]
		h.Free += v[metricHeapIdle] - v[metricHeapReleased]
		held[nodeKind] = h
	}
	return held
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

// collect has the node behind a listener of profiles collect its garbage, as a profile of the heap may ask for.
func (b *bench) collect(ctx context.Context, profiles string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, profiles+"/debug/pprof/heap?gc=1", http.NoBody)
	if err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("collect garbage: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("collect garbage: answered %d", resp.StatusCode)
	}
	return nil
}

// residentOf returns the resident memory of a process, in bytes.
func residentOf(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return parseResident(string(text))
}

// parseResident reads VmRSS from the text of /proc/<pid>/status, whose kB are KiB (proc(5)).
func parseResident(status string) (float64, error) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		if err != nil {
			return 0, fmt.Errorf("read memory: %w", err)
		}
		return kib * 1024, nil
	}
	return 0, errors.New("read memory: the process has none") // it has ended, and nobody has waited for it
}
