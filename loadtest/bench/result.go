package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/plot"
)

// A Result is one measurement. Peers are compared by its JSON: fields may be added and not changed.
type Result struct {
	Protocol string `json:"protocol"` // one of Protocols
	System   string `json:"system"`   // "carillon", "carillon-dev", …
	// what was different from others of the protocol, in a word or two
	Variant string `json:"variant"`
	Round   int    `json:"round"` // counted from 1

	N        int     `json:"n"`      // runs; W: steps; import, api: jobs
	Rate     float64 `json:"rate"`   // due a second; 0 = all at one instant, or overdue
	Span     float64 `json:"span_s"` // over which they fall due
	Resident int     `json:"resident_rows"`
	Jobs     int     `json:"recurring_jobs,omitempty"` // of R, which have all the runs …
	Every    float64 `json:"every_s,omitempty"`        // … at this interval

	Settings Settings `json:"settings"`

	// Lateness of W is the gap before each step but the first of a run (package flow), and that of
	// subscribers the time since the event.
	Lateness *Lateness `json:"lateness_ms,omitempty"`
	Missed   int       `json:"missed"`
	Early    int       `json:"early"`
	Doubled  int       `json:"doubled"`
	// Unexpected calls of the sink were of no run that was asked for.
	Unexpected int `json:"unexpected,omitempty"`
	// Of A to F, H, R and consoles, by the API: runs that are not listed as ended, and runs that ended twice,
	// differently.
	Unended           int `json:"unended"`
	DuplicateOutcomes int `json:"duplicate_outcomes"`

	RunsPerS float64 `json:"runs_per_s"`
	// Peak is the highest rate of starts over a second. Pause is how long nothing began between the
	// first and the last start, in steps of half a second.
	Peak  float64 `json:"peak_runs_per_s,omitempty"`
	Pause float64 `json:"pause_s,omitempty"`
	// LastStart is when the last run began, in seconds after the first due instant.
	LastStart float64 `json:"last_start_s,omitempty"`

	// by kind of process; import: a line; api: a request
	CPU map[string]float64 `json:"cpu_us_per_run"`
	// the same of each process; Settings.Nodes has their roles
	CPUOf map[string]float64 `json:"cpu_us_per_run_of_process,omitempty"`
	// AgainstOneOff is the CPU of a run without sink and generator, as a multiple of a one-off
	// run's.
	AgainstOneOff float64 `json:"cpu_against_one_off,omitempty"`

	Allocs float64 `json:"allocs_per_run"` // of all Carillon processes
	Bytes  float64 `json:"bytes_per_run"`

	Memory map[string]Memory `json:"memory_bytes,omitempty"` // by kind of process
	Scans  *Scans            `json:"scans,omitempty"`

	Load    *Load `json:"import,omitempty"`   // how the jobs were taken in
	Settled *Load `json:"resident,omitempty"` // how the resident rows were
	Killed  *Kill `json:"killed,omitempty"`

	Flight *InFlight     `json:"in_flight,omitempty"` // of F
	Harm   *Interference `json:"harm,omitempty"`      // of H
	// Consoles were open; nil: none were.
	Consoles *Consoles   `json:"consoles,omitempty"`
	Mend     *Mend       `json:"mend,omitempty"`    // of R, with daily jobs
	Regions  *RegionCost `json:"regions,omitempty"` // of regions
	Pages    []Page      `json:"pages,omitempty"`   // of pages; N is how often they were asked for
	Notes    []string    `json:"notes,omitempty"`
	Error    string      `json:"error,omitempty"` // of a peer: why there are no figures

	Began   time.Time `json:"began"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Command string    `json:"command"`

	Series []Point `json:"-"` // of the plot
}

// A Kill is the kill of protocol E.
type Kill struct {
	Member string  `json:"member"`
	After  float64 `json:"after_first_due_s"`
}

// Lateness is in milliseconds.
type Lateness struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
	// From is the witness: "sink", "histogram" (upper bounds of buckets) or "client".
	From string `json:"from"`
}

// Settings are those that bear on figures.
type Settings struct {
	Target     string `json:"target"`
	Cassandra  int    `json:"cassandra"`
	NATS       int    `json:"nats"`
	Nodes      string `json:"nodes"` // roles of each, in order
	Shards     int    `json:"shards"`
	Profile    string `json:"profile"`
	Payload    int    `json:"payload_bytes"`
	Keyed      bool   `json:"keyed"`
	Durability string `json:"durability"`
}

// durability says in words when a write counts as held, and on how many replicas.
func durability(spec cluster.Spec) string {
	log := "commit log periodic (acknowledged before it is on disk)"
	if spec.CommitLog == cluster.CommitLogGroup {
		log = "commit log group 10 ms (acknowledged = on disk)"
	}
	sync := "sync after 2 min (the server's default)"
	switch {
	case spec.NATSSync < 0:
		sync = "sync always"
	case spec.NATSSync > 0:
		sync = "sync after " + spec.NATSSync.String()
	}
	return fmt.Sprintf("Cassandra: replication %d, LOCAL_QUORUM, %s; JetStream: file, %d replicas, %s",
		min(spec.Cassandra, 3), log, spec.NATS, sync)
}

// devDurability is that of `carillon dev`.
const devDurability = "Pebble, one copy, as carillon dev has it; JetStream in the process: file, 1 replica, sync after 2 min (the server's default)"

// exact returns the quantiles of lateness measured one by one.
func exact(late []time.Duration, from string) *Lateness {
	if len(late) == 0 {
		return nil
	}
	late = slices.Clone(late)
	slices.Sort(late)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return &Lateness{ms(at(late, 0.5)), ms(at(late, 0.99)), ms(at(late, 0.999)), ms(late[len(late)-1]), from}
}

// at returns quantile q of sorted by nearest rank.
func at(sorted []time.Duration, q float64) time.Duration {
	// rounded up, but not for the error of a float
	rank := int(q*float64(len(sorted)) + 0.999999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// bounded returns the quantiles that a histogram in seconds allows.
func bounded(h metrics.Histogram) *Lateness {
	if h.Count() <= 0 {
		return nil
	}
	ms := func(q float64) float64 { return 1000 * h.Quantile(q) }
	return &Lateness{ms(0.5), ms(0.99), ms(0.999), ms(1), "histogram"}
}

// Faults says which promises a result breaks; one that does is no figure of speed.
func (r *Result) Faults() []string {
	var faults []string
	for _, f := range []struct {
		count int
		what  string
	}{{r.Missed, "missed"}, {r.Early, "early"}, {r.Unexpected, "unexpected"}, {r.Unended, "unended"}, {r.DuplicateOutcomes, "duplicate outcomes"}} {
		if f.count != 0 {
			faults = append(faults, fmt.Sprintf("%s %d", f.what, f.count))
		}
	}
	return faults
}

// title names a result among others, in letters that a file name may have.
func (r *Result) title() string {
	parts := []string{r.Protocol, r.System, r.Variant}
	if r.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.0f", r.Rate))
	}
	if r.Resident > 0 {
		parts = append(parts, fmt.Sprintf("resident-%d", r.Resident))
	}
	if r.Round > 0 {
		parts = append(parts, fmt.Sprintf("round-%d", r.Round))
	}
	return strings.ReplaceAll(strings.Join(parts, "-"), " ", "-")
}

// keep writes r, and its plot if it has a curve, into a folder.
func (r *Result) keep(folder string) error {
	base := filepath.Join(folder, r.title())
	if err := writeJSON(base+".json", r); err != nil {
		return err
	}
	return r.plot().Write(base + ".svg")
}

// writeJSON writes a result into a file, whose folder it makes.
func writeJSON(path string, result any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	return writeFile(path, append(text, '\n'))
}

// ReadResults reads results from files, of which each may hold many.
func ReadResults(paths []string) ([]*Result, error) {
	var all []*Result
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read result: %w", err)
		}
		for dec := json.NewDecoder(bytes.NewReader(text)); ; {
			var r Result
			if err := dec.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read result %s: %w", path, err)
			}
			all = append(all, &r)
		}
	}
	return all, nil
}

// writeFile writes a result for everybody to read.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("keep result: %w", err)
	}
	return nil
}

// plot shows lateness and rate over time. Lateness is 0 where nothing began.
func (r *Result) plot() plot.Plot {
	rate := plot.Curve{Name: "starts a second (left)", Color: "9aa5b1", Width: 2, Left: true}
	p50 := plot.Curve{Name: "lateness p50 (right)", Color: "2f80ed", Width: 1.5}
	p99 := plot.Curve{Name: "lateness p99 (right)", Color: "c0392b", Width: 1.5}
	for _, p := range r.Series {
		rate.Add(p.At, p.Rate)
		p50.Add(p.At, p.P50)
		p99.Add(p.At, p.P99)
	}
	all := plot.Plot{Title: r.title(), X: "seconds", Right: "ms", Left: "runs/s", Curves: []plot.Curve{rate, p50, p99}}
	if l := r.Lateness; l != nil && l.From == "histogram" { // counters tell no quantiles over time
		p99.Name = "mean lateness (right)"
		all.Curves = []plot.Curve{rate, p99}
	}
	return all
}
