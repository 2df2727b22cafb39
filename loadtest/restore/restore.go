package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	keyspace = "carillon" // of local clusters
	tag      = "carillon-drill"

	stopTimeout = time.Minute
	endPoll     = 500 * time.Millisecond
	endWithin   = 90 * time.Second
	// importTries are for nodes that do not have the schema yet.
	importTries = 20
)

// The sources of jobs, and how many jobs each has.
const (
	done    = "done"
	between = "between"
	later   = "later"
	after   = "after"

	doneJobs, betweenJobs, laterJobs, afterJobs = 150, 150, 600, 100
)

// Config describes a drill.
type Config struct {
	Dir       string // of everything; it must be empty
	Program   string // carillon-load: the sink and the checker
	Cassandra int    // nodes: 1 or 3
	Carillon  string // the nodes' program; empty: built from the work tree
	// Slow stretches the times of the drill: a machine that is busy needs longer for a snapshot.
	Slow int
	Log  *slog.Logger
}

// times are when jobs are due and what is done, from the start of the first import.
type times struct{ done, between, later, span time.Duration }

func (c Config) times() times {
	stretched := func(seconds int) time.Duration { return time.Duration(seconds*max(c.Slow, 1)) * time.Second }
	return times{done: 6 * time.Second, between: stretched(60), later: stretched(100), span: stretched(80)}
}

// A Report is what came of a drill.
type Report struct {
	Snapshot, Loss, Restored time.Time // when the snapshot began, everything was lost, and the nodes were ready again
	Bytes                    int64     // of the snapshot
	Tables                   int       // with data, on one node
	Doctor                   string    // what carillon doctor found that is not well
	Check                    check.Report
	Faults                   []string
}

// drill is one under way.
type drill struct {
	Config
	at      times
	began   time.Time
	cluster *cluster.Cluster
	sink    *process.Sink
	client  *api.Client
	report  *Report
}

// Run does a drill. An error means that it did not come to its end; what came out badly is in the
// report's faults.
func Run(ctx context.Context, cfg Config, out io.Writer) (rep *Report, err error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	d := &drill{Config: cfg, at: cfg.times(), began: time.Now(), report: &Report{}}
	defer func() { err = errors.Join(err, d.stop(ctx)) }()
	if d.cluster, err = cluster.Up(ctx, cluster.Options{
		Dir: filepath.Join(cfg.Dir, "cluster"), Attached: true, Say: func(line string) { cfg.Log.Info("cluster", "says", line) },
	}, cluster.Spec{Cassandra: cfg.Cassandra, NATS: 1, Nodes: 2, CommitLog: cluster.CommitLogGroup, Program: cfg.Carillon}); err != nil {
		return d.report, fmt.Errorf("start cluster: %w", err)
	}
	if d.sink, err = process.StartSink(ctx, cfg.Program, cfg.Dir); err != nil {
		return d.report, err
	}
	d.client = &api.Client{URLs: d.cluster.APIs(), HTTP: &http.Client{Transport: transport}, Log: cfg.Log}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"jobs are made", d.load},
		{"a snapshot is taken", d.backUp},
		{"jobs go on", d.goOn},
		{"everything is lost", d.lose},
		{"Cassandra is restored", d.restore},
		{"NATS and Carillon start", d.start},
	} {
		cfg.Log.Info("next step", "step", step.name, "after_s", int(time.Since(d.began).Seconds()))
		if err := step.do(ctx); err != nil {
			return d.report, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	cfg.Log.Info("judging")
	if err := d.judge(ctx, out); err != nil {
		return d.report, err
	}
	return d.report, d.look(ctx)
}

// stop stops everything, the sink last.
func (d *drill) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if d.cluster != nil {
		err = d.cluster.Close(ctx)
	}
	if d.sink != nil {
		err = errors.Join(err, d.sink.End())
	}
	return err
}

// kinds are quick jobs of every guarantee that succeed.
func kinds() (all []workload.Kind) {
	for _, g := range []check.Guarantee{check.AtLeastOnce, check.EffectivelyOnce, check.AtMostOnce} {
		all = append(all, workload.Kind{Guarantee: string(g), Timeout: "10s"})
	}
	return all
}

func (d *drill) file(source, what string) string {
	return filepath.Join(d.Dir, source+"-"+what+".ndjson")
}

// makeJobs imports jobs that are due from an instant on.
func (d *drill) makeJobs(ctx context.Context, source string, n int, from time.Time, spread time.Duration) (err error) {
	var jobs bytes.Buffer
	spec := workload.Spec{N: n, From: from, Spread: spread, Seed: 1, Source: source, Target: d.sink.URL, Keyed: true, Kinds: kinds()}
	if err := spec.Write(&jobs); err != nil {
		return err
	}
	if err := os.WriteFile(d.file(source, "asked"), jobs.Bytes(), 0o600); err != nil {
		return err
	}
	f, err := os.Create(d.file(source, "acks"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	acks, err := journal.NewAckWriter(f, source)
	if err != nil {
		return err
	}
	s, err := (&api.Import{Client: d.client, Path: d.file(source, "asked"), Acks: acks, Log: d.Log}).Run(ctx)
	if err == nil && s.Created != n {
		err = fmt.Errorf("%d of %d jobs were made", s.Created, n)
	}
	if err != nil {
		return fmt.Errorf("make jobs %s: %w", source, err)
	}
	return acks.Flush()
}

// ended waits until all jobs of a source have ended, as the API says.
func (d *drill) ended(ctx context.Context, source string) error {
	acks, err := journal.ReadFile(d.file(source, "acks"), journal.ReadAcks)
	if err != nil {
		return err
	}
	next := 0
	ok, err := wait.Poll(ctx, endPoll, time.Now().Add(endWithin), func() (bool, error) {
		for ; next < len(acks); next++ {
			run, found, err := d.client.Run(ctx, acks[next].ID)
			if err != nil || !found || !run.State.Terminal() {
				return false, err
			}
		}
		return true, nil
	})
	if err == nil && !ok {
		err = fmt.Errorf("%d of %d jobs %s have ended within %v", next, len(acks), source, endWithin)
	}
	return err
}

// load makes the jobs that will be in the snapshot, and waits until the first have ended.
func (d *drill) load(ctx context.Context) error {
	d.began = time.Now()
	if err := errors.Join(
		d.makeJobs(ctx, done, doneJobs, d.began.Add(d.at.done), 5*time.Second),
		d.makeJobs(ctx, between, betweenJobs, d.began.Add(d.at.between), 5*time.Second),
		d.makeJobs(ctx, later, laterJobs, d.began.Add(d.at.later), d.at.span),
	); err != nil {
		return err
	}
	if err := wait.Until(ctx, d.began.Add(d.at.done+5*time.Second)); err != nil {
		return err
	}
	return d.ended(ctx, done)
}

// goOn makes jobs that are not in the snapshot, and waits until those due before the loss have
// ended.
func (d *drill) goOn(ctx context.Context) error {
	if late := time.Since(d.began) - d.at.between; late > 0 {
		return fmt.Errorf("the snapshot took %v too long: this machine is slow, see --slow", late)
	}
	if err := d.makeJobs(ctx, after, afterJobs, d.began.Add(d.at.later), d.at.span); err != nil {
		return err
	}
	if err := wait.Until(ctx, d.began.Add(d.at.between+5*time.Second)); err != nil {
		return err
	}
	return d.ended(ctx, between)
}

// lose kills every process and removes the data of all servers.
func (d *drill) lose(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for member := range d.cluster.Status().PIDs() {
		g.Go(func() error { return d.cluster.Kill(gctx, member) })
	}
	err := g.Wait()
	d.report.Loss = time.Now().UTC()
	if late := time.Since(d.began) - d.at.later; late > 0 {
		return fmt.Errorf("the loss came %v too late: this machine is slow, see --slow", late)
	}
	for _, server := range d.servers() {
		err = errors.Join(err, os.RemoveAll(d.data(server)))
	}
	return err
}

// stores are the names of the Cassandra nodes, servers those of NATS as well.
func (d *drill) stores() (names []string) {
	for _, s := range d.cluster.Status().Cassandra {
		names = append(names, s.Name)
	}
	return names
}

func (d *drill) servers() []string { return append(d.stores(), "nats-1") }

// data is the folder of a server's data.
func (d *drill) data(member string) string { return filepath.Join(d.Dir, "cluster", member, "data") }

// start starts NATS, which is empty, and the nodes.
func (d *drill) start(ctx context.Context) error {
	if err := d.cluster.PowerOn(ctx, "nats-1"); err != nil {
		return err
	}
	var nodes []string
	for _, s := range d.cluster.Status().Carillon {
		nodes = append(nodes, s.Name)
	}
	if err := d.cluster.PowerOn(ctx, nodes...); err != nil {
		return err
	}
	d.report.Restored = time.Now().UTC()
	return nil
}

// look has carillon doctor look at what was restored.
func (d *drill) look(ctx context.Context) error {
	argv, err := d.cluster.Carillon(d.cluster.Status().Carillon[0].Name, "doctor")
	if err != nil {
		return err
	}
	text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // the cluster's program
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("carillon doctor: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "WARNING") || strings.HasPrefix(line, "ERROR") {
			d.report.Doctor += line
		}
	}
	return nil
}

// errUnsaved says that nothing came back of a snapshot.
var errUnsaved = errors.New("the snapshot holds nothing, or nothing of it was imported")

// sizeOf returns the bytes of the files below a folder.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
