package chaos

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/alerts"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// blackoutAfter is how long after the summary of the last import everything is killed.
	blackoutAfter = time.Second
	// sampleEvery is how often CPU times are read. What a member uses between the last reading and
	// its death is lost.
	sampleEvery = 500 * time.Millisecond
	// quietFor is how long no sink may see a call, after the last due instant, for the run to count
	// as over.
	quietFor = 3 * time.Second
	// quietPoll is how often the sinks are asked for that.
	quietPoll = 500 * time.Millisecond
	// stopTimeout bounds the end of everything that was started.
	stopTimeout = time.Minute
)

// A run is one run under way. The courses of the families of scenarios embed it.
type run struct {
	members
	recorder

	client  *api.Client // of the nodes that take jobs in
	watched watched
	// older and newer are the programs of TwoBuilds.
	older, newer string
	// alerts is the Prometheus of scenarios with alerts, monitoring the folder of the rules; nil
	// and empty in others.
	alerts     *alerts.Watch
	monitoring string
	// tally replaces the judge in courses with too many runs for it; nil in all others.
	tally *tally
}

// members are the processes of a run: the cluster and the sinks.
type members struct {
	cfg   Config
	log   *slog.Logger
	http  *http.Client
	meter *process.Meter
	sink  *process.Sink
	// second receives what is judged apart: the calls of jobs with limits; nil in other scenarios.
	second *process.Sink
	// apart are those of regions beside the first, by what they receive: the calls of a home
	// without a fault ("us"), of recurring jobs, of a home's workflows ("flow-eu").
	apart map[string]*process.Sink
	// regions are those of scenarios with several; nil in others. The first of them is the cluster.
	regions *cluster.Regions

	mu       sync.Mutex         // guards what follows
	clusters []*cluster.Cluster // one for each time that it was brought up; the last one counts
	led      string             // the NATS server that led when a step asked last
}

// A recorder keeps what happens in a run.
type recorder struct {
	recording sync.Mutex // guards what follows
	report    *Report
	asked     []string  // sources, in the order of their imports
	lastDue   time.Time // of everything asked for so far
}

// record changes the report.
func (r *recorder) record(change func(rep *Report)) {
	r.recording.Lock()
	defer r.recording.Unlock()
	change(r.report)
}

// Run does one run and returns its report; out gets the judge's table. An error means that the run
// did not come to its end; the report goes as far as the run did. A broken promise is no error: see
// Report.Failed.
func Run(ctx context.Context, cfg Config, out io.Writer) (rep *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Dir, err = emptyDir(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Scenario.Guards() || len(cfg.Scenario.plan().Members.Roles) > 0 {
		cfg.Cluster.Roles = executorRoles(cfg.Cluster.Nodes)
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext, MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	r := &run{
		members:  members{cfg: cfg, log: cfg.Log, http: &http.Client{Transport: transport}, meter: process.NewMeter(process.CPU)},
		recorder: recorder{report: &Report{Scenario: cfg.Scenario, Command: cfg.Command, Began: time.Now().UTC()}},
	}
	r.report.describe(ctx, cfg)

	defer func() { err = errors.Join(err, r.stop(ctx)) }()
	if err := r.start(ctx); err != nil {
		return r.report, err
	}
	stopSampling := r.sampleAlways()
	defer stopSampling()
	stopWatching, err := (watching{r}).always(ctx)
	if err != nil {
		return r.report, err
	}
	defer func() { err = errors.Join(err, stopWatching()) }()

	play := mainJob{r}.play
	switch {
	case cfg.Scenario.Recurs():
		play = recurringCourse{r}.play
	case cfg.Scenario.Guards():
		play = guaranteesCourse{r}.play
	case cfg.Scenario == Limits:
		play = limitsCourse{r}.play
	case cfg.Scenario == Workflows:
		play = workflowsCourse{r}.play
	case cfg.Scenario.plan().Regions > 0:
		play = regionsCourse{r}.play
	case cfg.Scenario.Steady():
		play = steadyCourse{r}.play
	case cfg.Scenario == ImportCuts:
		play = cutsCourse{r}.play
	case cfg.Scenario == HerdMillion:
		play = countedCourse{r}.playHerd
	case cfg.Scenario == Tombstones:
		play = countedCourse{r}.playTombstones
	case cfg.Scenario == Soak:
		play = soakCourse{countedCourse{r}}.play
	}
	if err := play(ctx); err != nil {
		return r.report, err
	}
	if cfg.Scenario.plan().Alerts {
		if err := r.judgeAlerts(ctx); err != nil {
			return r.report, err
		}
	}
	r.log.Info("judging", "wait", cfg.Wait, "apart", cfg.Apart)
	if err := (judging{r}).judge(ctx, out); err != nil {
		return r.report, err
	}
	r.report.Judged = true
	r.report.Rates, err = r.rates()
	return r.report, err
}

// start starts the cluster and the sinks. The cluster comes first where it makes the address of the
// sinks.
func (r *run) start(ctx context.Context) (err error) {
	build := func(context.Context) error { return nil }
	switch s := r.cfg.Scenario; {
	case s == TwoBuilds:
		build = twoBuilds{r}.build
	case s.setsClocks():
		build = r.buildClocked
	}
	if err := build(ctx); err != nil {
		return err
	}
	if r.cfg.Scenario.plan().Regions > 0 {
		return r.upRegions(ctx)
	}
	var listen []string
	if r.cfg.Cluster.Namespaces {
		if err := r.up(ctx); err != nil {
			return err
		}
		listen = []string{"--listen", net.JoinHostPort(r.cluster().Host(), "0")}
	}
	if r.cfg.Scenario == AlertsTarget { // the second address is the target that hangs
		listen = []string{"--listen", "127.0.0.1:0,127.0.0.1:0"}
	}
	if r.sink, err = process.StartSink(ctx, r.cfg.Program, r.cfg.Dir, listen...); err != nil {
		return err
	}
	if r.cfg.Scenario == Limits {
		if err := (limitsCourse{r}).startSink(ctx); err != nil {
			return err
		}
	}
	if r.cfg.Cluster.Namespaces {
		return nil
	}
	return r.up(ctx)
}

// stop stops everything, the sinks last.
func (r *run) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if r.alerts != nil {
		err = r.alerts.End()
	}
	if r.regions != nil {
		err = r.regions.Close(ctx)
	} else {
		for _, c := range slices.Backward(r.clusters) {
			err = errors.Join(err, c.Close(ctx))
		}
	}
	for _, sink := range r.sinks() {
		err = errors.Join(err, sink.End())
	}
	return err
}

// emptyDir makes dir and returns its absolute path; it must not hold anything.
func emptyDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("look into folder: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty: evidence is not overwritten", dir)
	}
	return dir, nil
}

// up starts the cluster, or all of it again.
func (r *run) up(ctx context.Context) error {
	c, err := cluster.Up(ctx, cluster.Options{
		Dir: filepath.Join(r.cfg.Dir, "cluster"), Attached: true,
		Say: func(line string) { r.log.Info("cluster", "says", line) },
	}, r.cfg.Cluster)
	if err != nil {
		return fmt.Errorf("start cluster: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clusters = append(r.clusters, c)
	if r.client != nil {
		return nil // the addresses are what they were
	}
	r.client = &api.Client{URLs: intakeURLs(c), HTTP: r.http, Log: r.log}
	return nil
}

// upAgain starts all members again, which builds the program anew. The note says if the source was
// changed since.
func (r *run) upAgain(ctx context.Context) (note string, err error) {
	before, err := r.programSum()
	if err != nil {
		return "", err
	}
	if err := r.up(ctx); err != nil {
		return "", err
	}
	after, err := r.programSum()
	if err == nil && before != after {
		note = "the source was changed: another program than before"
	}
	return note, err
}

// nodeProgram is the path of the program that the nodes run: the one that is stated, or the one
// that the cluster has built.
func (r *members) nodeProgram() string {
	return cmp.Or(r.cfg.Cluster.Program, filepath.Join(r.cfg.Dir, "cluster", "carillon"))
}

// programSum returns the SHA-256 of the program that the nodes run.
func (r *members) programSum() ([sha256.Size]byte, error) {
	text, err := os.ReadFile(r.nodeProgram())
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("look at the nodes' program: %w", err)
	}
	return sha256.Sum256(text), nil
}

// finish waits for the last arrival and keeps the phases of a run with one import.
func (r *run) finish(ctx context.Context, begin, start, imported mark) error {
	if err := r.untilQuiet(ctx); err != nil {
		return err
	}
	r.keepPhases(begin, start, imported)
	return nil
}

func (r *run) keepPhases(begin, start, imported mark) {
	r.report.Phases = []Phase{
		phase("idle", begin, start), phase("main import", start, imported), phase("runs", imported, r.mark()),
	}
}

// measureIdle measures the idle cluster, from begin to start.
func (r *run) measureIdle(ctx context.Context) (begin, start mark, err error) {
	if err := r.describeStream(ctx); err != nil {
		return begin, start, err
	}
	begin = r.mark()
	err = wait.Until(ctx, begin.at.Add(r.cfg.Idle))
	return begin, r.mark(), err
}

// idle is measureIdle where jobs fall due after the lead. t0 is the first due instant.
func (r *run) idle(ctx context.Context) (begin, start mark, t0 time.Time, err error) {
	if begin, start, err = r.measureIdle(ctx); err != nil {
		return begin, start, t0, err
	}
	t0 = start.at.Add(r.cfg.Lead + r.cfg.Warm).UTC().Truncate(time.Millisecond)
	r.report.FirstDue = t0
	r.keepDue(t0.Add(r.cfg.Span))
	return begin, start, t0, nil
}

// take takes the steps of a chain and writes them down.
func (r *run) take(ctx context.Context, t0 time.Time, c chain) error {
	var froze time.Time
	for i, s := range c {
		at := t0.Add(s.at)
		// a freeze of this chain lasts as long as it was to, also when it came late
		if s.act == ActThaw && i > 0 {
			at = latest(at, froze.Add(s.at-c[i-1].at))
		}
		if err := wait.Until(ctx, at); err != nil {
			return err
		}
		e := Event{Act: s.act, Member: s.member, Began: time.Now().UTC()}
		note, err := r.act(ctx, s)
		e.Ended, e.Note = time.Now().UTC(), note
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.act, s.member, err)
		}
		froze = e.Ended
		e.AfterFirstDue = e.Began.Sub(r.report.FirstDue).Seconds()
		r.log.Info("fault", "act", s.act, "member", s.member, "after_first_due_s", e.AfterFirstDue,
			"took", e.Ended.Sub(e.Began).Round(time.Millisecond), "note", note)
		r.record(func(rep *Report) { rep.Events = append(rep.Events, e) })
	}
	return nil
}

// act does one step. The note goes into the report.
func (r *run) act(ctx context.Context, s step) (note string, err error) {
	c := r.cluster()
	if s.member == streamLeader {
		if s.member, err = r.leader(ctx, s.act); err != nil {
			return "", err
		}
		note = s.member
	}
	switch s.act {
	case ActCut, ActHeal:
		return r.actOnLinks(ctx, s)
	case ActAgree:
		return r.awaitAgreement(ctx)
	case ActStop:
		r.sample()
		return note, c.Stop(ctx, s.member)
	case ActKill:
		r.sample()
		return note, c.Kill(ctx, s.member)
	case ActStart:
		return note, c.StartMember(ctx, s.member)
	case ActFreeze:
		return note, c.Freeze(ctx, s.member)
	case ActThaw:
		return note, c.Thaw(ctx, s.member)
	case ActStream:
		gone, err := nats.DeleteStreams(ctx, c.NATSURLs()[0])
		var notes []string
		for _, g := range gone {
			notes = append(notes, fmt.Sprintf("%s with %d messages", g.Name, g.Messages))
		}
		return strings.Join(notes, ", "), err
	case ActKillAll:
		r.sample()
		g, ctx := errgroup.WithContext(ctx)
		for member := range c.Status().PIDs() {
			g.Go(func() error { return c.Kill(ctx, member) })
		}
		return "", g.Wait()
	case ActStartAll:
		// The cluster before keeps its hold on the addresses until the end.
		return r.upAgain(ctx)
	default:
		for _, acts := range families {
			if do, ok := acts[s.act]; ok {
				says, err := do(ctx, r, s.member)
				return strings.TrimSpace(note + " " + says), err
			}
		}
		return "", fmt.Errorf("unknown act %q", s.act)
	}
}

// untilQuiet waits until the last due instant has passed and no sink sees a new call, at most
// Config.Wait.
func (r *run) untilQuiet(ctx context.Context) error {
	if err := wait.Until(ctx, r.lastDue); err != nil {
		return err
	}
	seen, since := int64(-1), time.Now()
	ok, err := wait.Poll(ctx, quietPoll, time.Now().Add(r.cfg.Wait), func() (bool, error) {
		n := int64(0)
		for _, sink := range r.sinks() {
			stats, err := process.AskSink(ctx, r.http, sink.URL)
			if err != nil {
				return false, err
			}
			n += stats.Seen
		}
		if n != seen {
			seen, since = n, time.Now()
		}
		return time.Since(since) >= quietFor, nil
	})
	if err == nil && !ok {
		r.log.Warn("arrivals go on, and the wait is over", "seen", seen)
	}
	return err
}

// sinks returns all that receive calls.
func (r *members) sinks() []*process.Sink {
	all := []*process.Sink{r.sink, r.second}
	for _, name := range slices.Sorted(maps.Keys(r.apart)) {
		all = append(all, r.apart[name])
	}
	return slices.DeleteFunc(all, func(s *process.Sink) bool { return s == nil })
}

func (r *run) changesFile() string { return filepath.Join(r.cfg.Dir, "changes.ndjson") }

func (r *recorder) keepSource(source string) {
	r.recording.Lock()
	defer r.recording.Unlock()
	r.asked = append(r.asked, source)
}

func (r *recorder) sources() []string {
	r.recording.Lock()
	defer r.recording.Unlock()
	return slices.Clone(r.asked)
}

// keepDue notes that something is due at t.
func (r *recorder) keepDue(t time.Time) {
	r.recording.Lock()
	defer r.recording.Unlock()
	r.lastDue = latest(r.lastDue, t)
}

// cluster returns the cluster as it was brought up last.
func (r *members) cluster() *cluster.Cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters[len(r.clusters)-1]
}

func (r *recorder) keepImport(res ImportResult) {
	r.recording.Lock()
	defer r.recording.Unlock()
	if res.Source != "" {
		r.report.Imports = append(r.report.Imports, res)
	}
}
