package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/process"
)

// An Event is one act on the cluster as it happened.
type Event struct {
	Act    Act    `json:"act"`
	Member string `json:"member,omitempty"`
	Note   string `json:"note,omitempty"`
	// Began and Ended: a start ends when the member is ready.
	Began         time.Time `json:"began"`
	Ended         time.Time `json:"ended"`
	AfterFirstDue float64   `json:"after_first_due_s"`
}

// Rates are the rates of calls, by the sink.
type Rates struct {
	// Peak is the most arrivals in one second, by the sink's clock.
	Peak int `json:"peak_per_s"`
	// Mean is the arrivals from the first due instant to the last arrival, a second.
	Mean float64 `json:"mean_per_s"`
	// Last is when the last arrival came, in seconds after the first due instant.
	Last float64 `json:"last_after_first_due_s"`
}

// Settings are those of the cluster that bear on figures.
type Settings struct {
	Cluster        cluster.Spec `json:"cluster"`
	Replication    int          `json:"replication"`
	StreamReplicas int          `json:"stream_replicas"`
	Jobs           int          `json:"jobs"`
	LeadSeconds    float64      `json:"lead_s"`
	SpanSeconds    float64      `json:"span_s"`
	Keyed          bool         `json:"keyed"`
	PayloadBytes   int          `json:"payload_bytes"`
	Seed           uint64       `json:"seed"`
}

// A Report is the result of a run.
type Report struct {
	Scenario Scenario          `json:"scenario"`
	Command  string            `json:"command"`
	Commit   string            `json:"commit"`
	Began    time.Time         `json:"began"`
	Machine  string            `json:"machine"`
	Versions map[string]string `json:"versions"`
	Settings Settings          `json:"settings"`

	FirstDue time.Time      `json:"first_due"`
	Imports  []ImportResult `json:"imports"`
	Changes  ChangeCount    `json:"changes"`
	Events   []Event        `json:"events"`
	Phases   []Phase        `json:"phases"`
	Rates    Rates          `json:"rates"`

	// Deferrals is how often a run of a task was deferred because of its limit, as far as nodes
	// answered. It lacks what a node counted just before its kill. Only in Limits.
	Deferrals int `json:"put_offs,omitempty"`

	// Recurring is the part about recurring jobs; nil without them.
	Recurring *RecurringResult `json:"recurring,omitempty"`

	// Workflows is the part about workflows; nil without them.
	Workflows *WorkflowsResult `json:"workflows,omitempty"`

	// Regions is the part about regions; nil without them.
	Regions *RegionsResult `json:"regions,omitempty"`

	// DroppedPackets is how many packets cuts of links have dropped.
	DroppedPackets int `json:"dropped_packets,omitempty"`
	// Older is the commit of the older build; only in TwoBuilds.
	Older string `json:"older,omitempty"`
	// Figures are what a scenario of load measured.
	Figures []Figure `json:"figures,omitempty"`
	// Broken are promises that this program itself saw broken, in words.
	Broken []string `json:"broken,omitempty"`

	// Judged: Check (or Recurring.Check, or Workflows.Check) holds the judge's report. A run without is
	// a failed one.
	Judged bool         `json:"judged"`
	Check  check.Report `json:"check"`
}

// Faults says in words why the run failed; nothing if it did not.
func (r *Report) Faults() []string {
	var faults []string
	if !r.Judged {
		faults = append(faults, "the run did not come to its end")
	} else {
		faults = append(faults, r.verdicts()...)
	}
	faults = append(faults, r.limitsFaults()...)
	faults = append(faults, r.workflowsFaults()...)
	faults = append(faults, r.guaranteeFaults()...)
	faults = append(faults, r.steadyFaults()...)
	faults = append(faults, r.regionsFaults()...)
	for _, i := range r.Imports {
		if f := i.fault(); f != "" {
			faults = append(faults, f)
		}
	}
	if r.Judged && r.Check.NotDue > 0 {
		faults = append(faults, fmt.Sprintf("%d runs were not due when they were read", r.Check.NotDue))
	}
	return faults
}

// verdicts returns what the judges found, in words.
func (r *Report) verdicts() []string {
	var faults []string
	if r.Recurring != nil && r.Recurring.Check.Failed() {
		c := &r.Recurring.Check
		faults = append(faults, fmt.Sprintf("missed %d, early %d, unexpected %d, ghosts after change %d, duplicate outcomes %d, policy broken %d, too late %d, unfinished %d, unreadable %d",
			c.Missed, c.Early, c.Unexpected, c.Ghosts, c.DuplicateOutcomes, c.PolicyBroken, c.TooLate, c.Unfinished, c.Unreadable))
		faults = append(faults, brokenLimits(c.Limits, nil)...)
	}
	if c := &r.Check; c.Failed() {
		faults = append(faults, fmt.Sprintf("missed %d, early %d, unexpected %d, ghosts after cancel %d, duplicate outcomes %d, reversed ends %d, too late %d, unfinished %d, unreadable %d; %s",
			c.Missed, c.Early, c.Unexpected, c.Ghosts, c.DuplicateOutcomes, c.Reversed, c.TooLate, c.Unfinished, c.Unreadable+c.UnreadableOthers+c.Unlisted, c.Answers))
		if c.NoDeadLetter+c.SurplusDeadLetters+c.ExcessAttempts+c.EarlyRetries > 0 {
			faults = append(faults, fmt.Sprintf("failed without a dead letter %d, dead letters too many %d, attempts beyond the bound %d, retries too soon %d",
				c.NoDeadLetter, c.SurplusDeadLetters, c.ExcessAttempts, c.EarlyRetries))
		}
		for _, g := range c.Guarantees {
			if broken := g.Broken(); broken > 0 {
				faults = append(faults, fmt.Sprintf("%s broken %d times", g.Guarantee, broken))
			}
		}
		faults = append(faults, brokenLimits(c.Limits, c.Rates)...)
	}
	return faults
}

// brokenLimits says in words which limits were broken.
func brokenLimits(limits []check.SlotCount, rates []check.RateCount) []string {
	var faults []string
	for _, c := range limits {
		if c.Broken() > 0 {
			faults = append(faults, fmt.Sprintf("%s %d: calls beyond the limit %d, runs beside themselves %d", c.Of, c.Limit, c.Over, c.Twice))
		}
	}
	for _, c := range rates {
		if c.Over > 0 {
			faults = append(faults, fmt.Sprintf("%s: starts beyond %s %d", c.Task, c.Rate, c.Over))
		}
	}
	return faults
}

// Failed reports whether a promise was broken or is not known to have been kept.
func (r *Report) Failed() bool { return len(r.Faults()) > 0 }

// WriteJSON writes r for machines and for keeping.
func (r *Report) WriteJSON(w io.Writer) error {
	return check.WriteJSON(w, struct {
		*Report
		Failed bool     `json:"failed"`
		Faults []string `json:"faults,omitempty"`
	}{r, r.Failed(), r.Faults()})
}

// ReadReport reads the output of WriteJSON.
func ReadReport(r io.Reader) (*Report, error) {
	var rep Report
	if err := json.NewDecoder(r).Decode(&rep); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return &rep, nil
}

// describe fills in what is known before the run. What it cannot find out is "unknown".
func (r *Report) describe(ctx context.Context, cfg Config) {
	r.Settings = Settings{
		Cluster: cfg.Cluster, Replication: min(cfg.Cluster.Cassandra, 3), Jobs: cfg.Jobs, LeadSeconds: (cfg.Lead + cfg.Warm).Seconds(),
		SpanSeconds: cfg.Span.Seconds(), Keyed: !cfg.Unkeyed, PayloadBytes: cfg.Payload, Seed: cfg.Seed,
	}
	r.Commit = process.Commit(ctx)
	r.Machine = process.Machine()
	r.Versions = map[string]string{"go": runtime.Version(), "cassandra": "unknown", "java": javaVersion(ctx)}
	if dir, err := cluster.Jars(ctx, func(string) {}); err == nil {
		if jars, err := filepath.Glob(filepath.Join(dir, "cassandra-all-*.jar")); err == nil && len(jars) == 1 {
			r.Versions["cassandra"] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "cassandra-all-"), ".jar")
		}
	}
}

// describeStream fills in the version of NATS and the replicas of the stream.
func (r *run) describeStream(ctx context.Context) (err error) {
	n, err := nats.Dial(ctx, r.cluster().NATSURLs()[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	r.report.Versions["nats"] = n.Version
	all, err := n.Streams()
	if err != nil {
		return err
	}
	for _, s := range all {
		r.report.Settings.StreamReplicas = s.Replicas
	}
	return nil
}

func javaVersion(ctx context.Context) string {
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	_, version, found := strings.Cut(string(out), `version "`)
	version, _, quoted := strings.Cut(version, `"`)
	if err != nil || !found || !quoted {
		return "unknown"
	}
	return version
}

// rates reads the sink's record.
func (r *run) rates() (Rates, error) {
	seen, _, err := journal.ReadSeenFile(r.sink.Record)
	if err != nil {
		return Rates{}, err
	}
	return ratesOf(seen, r.report.FirstDue), nil
}

// ratesOf sums up arrivals.
func ratesOf(seen []check.Sighting, firstDue time.Time) Rates {
	var rates Rates
	perSecond := map[int64]int{}
	after, last := 0, firstDue
	for i := range seen {
		at := seen[i].At
		perSecond[at.Unix()]++
		rates.Peak = max(rates.Peak, perSecond[at.Unix()])
		if !at.Before(firstDue) {
			after++
			last = latest(last, at)
		}
	}
	rates.Last = last.Sub(firstDue).Seconds()
	if rates.Last > 0 {
		rates.Mean = float64(after) / rates.Last
	}
	return rates
}
