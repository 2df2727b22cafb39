package chaos

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

// Resources are what a member uses at one instant.
type Resources struct {
	PID     int     `json:"pid"`
	MiB     float64 `json:"rss_mib"`
	Files   int     `json:"open_files"`
	Threads int     `json:"threads"`
	// Goroutines and HeapMiB are of Carillon nodes, DiskMiB of Cassandra and NATS.
	Goroutines int     `json:"goroutines,omitempty"`
	HeapMiB    float64 `json:"heap_mib,omitempty"`
	DiskMiB    float64 `json:"disk_mib,omitempty"`
}

const (
	mib         = 1 << 20
	bytesPerKiB = 1 << 10
)

// resources returns what each running member uses, with this program and the sink.
func (r *members) resources(ctx context.Context) map[string]Resources {
	all := map[string]Resources{}
	c := r.cluster()
	pids := c.Status().PIDs()
	pids["sink"], pids["load"] = r.sink.PID, os.Getpid()
	apis := map[string]string{}
	for _, n := range c.Status().Carillon {
		apis[n.Name] = n.API
	}
	for member, pid := range pids {
		if pid == 0 {
			continue
		}
		of, err := resourcesOf(os.DirFS("/proc"), pid)
		if err != nil {
			continue // it has just ended
		}
		if api, ok := apis[member]; ok {
			of.Goroutines, of.HeapMiB = r.goResources(ctx, api)
		} else if strings.Contains(member, "-") {
			of.DiskMiB = bytesBelow(filepath.Join(r.cfg.Dir, "cluster", member, "data")) / mib
		}
		all[member] = of
	}
	return all
}

// resourcesOf reads the resources of a process from /proc (proc(5)).
func resourcesOf(proc fs.FS, pid int) (of Resources, err error) {
	dir := strconv.Itoa(pid)
	text, err := fs.ReadFile(proc, dir+"/status")
	if err != nil {
		return of, fmt.Errorf("read resources: %w", err)
	}
	of.PID = pid
	kib, _ := strconv.ParseFloat(strings.TrimSuffix(process.Field(string(text), "VmRSS"), " kB"), 64) // none of one that has ended
	of.MiB = kib * bytesPerKiB / mib
	of.Threads, _ = strconv.Atoi(process.Field(string(text), "Threads"))
	open, err := fs.ReadDir(proc, dir+"/fd")
	if err != nil {
		return of, fmt.Errorf("read resources: %w", err)
	}
	of.Files = len(open)
	return of, nil
}

// goResources asks a node for its goroutines and its heap; zeros if it does not answer.
func (r *members) goResources(ctx context.Context, node string) (goroutines int, heapMiB float64) {
	v, err := r.metrics(ctx, node)
	if err != nil {
		return 0, 0
	}
	return int(v["go_goroutines"]), v["go_memstats_heap_inuse_bytes"] / mib
}

// metrics returns the metrics of a node.
func (r *members) metrics(ctx context.Context, node string) (metrics.Values, error) {
	return metrics.Read(ctx, r.http, node+"/metrics", askTimeout)
}

// counter returns one counter of a node, by name and labels.
func (r *members) counter(ctx context.Context, node, name string) (float64, error) {
	v, err := r.metrics(ctx, node)
	if err != nil {
		return 0, err
	}
	return v.Value(name)
}

// bytesBelow returns the size of all files below a folder.
func bytesBelow(dir string) float64 {
	total := int64(0)
	// never fails: see above
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return float64(total)
}

// A Phase is a part of the run with the CPU seconds of each member. "sink" is the receiver, "load"
// this program.
type Phase struct {
	Name    string             `json:"name"`
	Seconds float64            `json:"seconds"`
	CPU     map[string]float64 `json:"cpu_seconds"`
}

// Of returns the CPU seconds of all members of a kind ("cassandra", "nats", "carillon", "sink",
// "load").
func (p Phase) Of(kind string) float64 {
	sum := 0.0
	for member, s := range p.CPU {
		member = member[strings.LastIndexByte(member, '/')+1:] // of a region
		if member == kind || strings.HasPrefix(member, kind+"-") {
			sum += s
		}
	}
	return sum
}

// A mark is the CPU of every member up to an instant.
type mark struct {
	at  time.Time
	cpu map[string]time.Duration
}

// phase returns the CPU between two marks.
func phase(name string, from, to mark) Phase {
	p := Phase{Name: name, Seconds: to.at.Sub(from.at).Seconds(), CPU: map[string]float64{}}
	for member, t := range to.cpu {
		p.CPU[member] = (t - from.cpu[member]).Seconds()
	}
	return p
}

// sample reads the CPU times of everything.
func (r *members) sample() map[string]time.Duration {
	all := r.pids()
	all["sink"], all["load"] = r.sink.PID, os.Getpid()
	if r.second != nil {
		all["sink-2"] = r.second.PID
	}
	for name, sink := range r.apart {
		if sink != nil {
			all["sink-"+name] = sink.PID
		}
	}
	return r.meter.Sample(all)
}

// pids are the processes of the cluster, or of all regions.
func (r *members) pids() map[string]int {
	if r.regions != nil {
		return r.regionPIDs()
	}
	return r.cluster().Status().PIDs()
}

func (r *members) mark() mark { return mark{time.Now(), r.sample()} }

// sampleAlways samples until it is stopped, so that the CPU of a member is known before it dies.
func (r *members) sampleAlways() (stop func()) {
	return wait.Every(context.Background(), sampleEvery, func(context.Context) { r.sample() })
}
