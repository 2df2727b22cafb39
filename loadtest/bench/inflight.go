package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// h2Target is an HTTP call over TLS, so over HTTP/2: a thousand calls share a connection.
	h2Target target = "h2"

	// heldSubject is where the worker listens that answers late.
	heldSubject = "bench.held"
	// slotsEnv and trustEnv are environment variables that the nodes inherit: the slots of an
	// executor, and the file of certificates that Go trusts.
	slotsEnv, trustEnv = "CARILLON_EXECUTOR_SLOTS", "SSL_CERT_FILE"
	// spareSlots are left for the new runs. One target may have half of all slots.
	spareSlots = 5000
	// spareFiles are left of a process's limit of open files for all that is no call in flight.
	spareFiles = 1500
	// callsAnAddress bounds the calls under way at one address of the sink over HTTP/1.1. An
	// executor has 2,048 connections to a host.
	callsAnAddress = 1800
	// settleFor lies between the last due instant of the ramp and the first reading.
	settleFor = 2 * time.Second
	// Between that reading, with its collection, and the first new run lies a second for each
	// readPerS in flight; at least one second, at most readLongest.
	readPerS    = 12_500
	readLongest = 8 * time.Second
	// devSlots bounds the runs in flight on carillon dev, which has 2,048 slots.
	devSlots = 1900
	// flightMargin lies between the last run beside and the first answer.
	flightMargin = 3 * time.Second
	// flightPatience is added to Config.Hold for the time-out of the runs.
	flightPatience = 2 * time.Minute
)

// An InFlight is the figures of protocol F.
type InFlight struct {
	Hold float64 `json:"hold_s"` // how long each call is held …
	Ramp float64 `json:"ramp_s"` // … and over which they begin
	// Peak is the most attempts that were under way, by the executor's own gauge.
	Peak int `json:"peak"`
	// Succeeded are the runs that were held and succeeded; the others are Missed of the result.
	Succeeded int `json:"succeeded"`
	// RSS and Heap are the growth of the executor's memory with all in flight, in bytes for each
	// run. The heap is what is in use after a collection.
	RSS  float64 `json:"rss_bytes_per_run"`
	Heap float64 `json:"heap_bytes_per_run"`
	// Held are the executor's RSS and heap before and with all in flight.
	Held Memory `json:"held"`
	// RenewalsAlone and Renewals are the writes a second that renew sessions, while idle and while
	// all was in flight. −1: not known, since carillon dev does not count them.
	RenewalsAlone float64 `json:"session_writes_per_s_alone"`
	Renewals      float64 `json:"session_writes_per_s"`
	// Beside is how many new runs call at once, BesideRate a second.
	Beside     int `json:"beside"`
	BesideRate int `json:"beside_rate"`
	// LatenessAlone and Lateness are theirs, without and with all in flight.
	LatenessAlone *Lateness `json:"lateness_alone_ms"`
	Lateness      *Lateness `json:"lateness_ms"`
}

// readFor is how long the reading of n runs in flight may take.
func readFor(n int) time.Duration {
	return min(max(time.Second, time.Duration(n/readPerS)*time.Second), readLongest)
}

// A flight is one measurement of F.
type flight struct {
	bench  *bench
	sys    system
	target target
	n      int
	note   string // that n is less than was asked for; "" = it is not
	round  int
	more   []string // arguments of the sink that holds the calls
	called callee   // whom the runs call that are held
}

func newFlight(c Config, t target, round int) *flight {
	f := &flight{target: t, n: c.N, round: round}
	if fit := filesLimit() - spareFiles; t == httpTarget && f.n > fit {
		f.note = fmt.Sprintf("asked for were %d; a process may have %d files open here, and over HTTP/1.1 each call needs one", f.n, fit+spareFiles)
		f.n = fit
	}
	for range addressesFor(t, f.n) {
		f.more = append(f.more, "--listen", heldHost(len(f.more)/2)+":0")
	}
	return f
}

// prepare sets the environment of the nodes: their slots, and the sink's certificate.
func (f *flight) prepare(b *bench) (undo func() error, err error) {
	if err := os.MkdirAll(b.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	trusted, sink := filepath.Join(b.cfg.Dir, "trusted.pem"), filepath.Join(b.cfg.Dir, "sink.pem")
	if f.target == h2Target {
		if err := writeCertificate(trusted, sink, time.Now()); err != nil {
			return nil, err
		}
		f.more = append(f.more, "--tls-cert", sink, "--tls-key", sink)
	}
	return setenv(map[string]string{slotsEnv: strconv.Itoa(2*f.n + spareSlots), trustEnv: trusted})
}

// measure starts the sink or worker that holds the calls, and measures.
func (f *flight) measure(ctx context.Context, b *bench, sys system) (err error) {
	f.bench, f.sys = b, sys
	if f.target == natsTarget {
		f.called, err = b.worker(ctx, sys, heldSubject, b.cfg.Hold)
	} else {
		f.called, err = b.startSink(ctx, "held", f.more...)
	}
	if err != nil {
		return err
	}
	r, err := f.run(ctx)
	if err := errors.Join(err, f.called.end()); err != nil {
		return err
	}
	if f.note != "" {
		r.Notes = append(r.Notes, f.note)
	}
	return b.keep(r)
}

// filesLimit is how many files a process of ours may have open.
func filesLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1 << 20 // not told: it will be seen
	}
	return int(min(l.Max, 1<<30)) // #nosec G115 -- bounded
}

// addressesFor returns how many addresses the sink needs for n calls at once.
func addressesFor(t target, n int) int {
	switch t {
	case httpTarget:
		return n/callsAnAddress + 1
	case h2Target:
		return 4
	default:
		return 0
	}
}

// heldHost is address number i of the sink that holds calls. All of 127.0.0.0/8 is this machine;
// clusters use 127.0.x.y.
func heldHost(i int) string { return net.IPv4(127, 1, byte(i>>8), byte(i)+1).String() } // #nosec G115 -- a byte each

// setenv sets variables and returns a func that restores them.
func setenv(vars map[string]string) (back func() error, err error) {
	was := map[string]string{}
	for name, value := range vars {
		if old, ok := os.LookupEnv(name); ok {
			was[name] = old
		}
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	return func() error {
		var faults []error
		for name := range vars {
			if old, ok := was[name]; ok {
				faults = append(faults, os.Setenv(name, old))
			} else {
				faults = append(faults, os.Unsetenv(name))
			}
		}
		return errors.Join(faults...)
	}, nil
}

// jobs describes the runs that are held.
func (f *flight) jobs(from time.Time) jobs {
	j := f.bench.jobs(f.n, from, f.bench.cfg.Ramp, f.target, f.called.url)
	j.subject = heldSubject
	j.more = fmt.Sprintf(`"timeout":%q,`, f.bench.cfg.Hold+flightPatience)
	if f.called.sink != nil {
		for _, base := range f.called.sink.URLs {
			j.urls = append(j.urls, fmt.Sprintf("%s/work-%s", base, f.bench.cfg.Hold))
		}
	}
	return j
}

// besides is the batch of new runs.
func (f *flight) newRuns() batch {
	span := time.Duration(float64(f.bench.cfg.Beside) / float64(f.bench.cfg.BesideRate) * float64(time.Second))
	return batch{protocol: "F", variant: "beside", n: f.bench.cfg.Beside, rate: f.bench.cfg.BesideRate, span: span, target: httpTarget, round: f.round}
}

// fly measures.
func (f *flight) run(ctx context.Context) (*Result, error) {
	b, w := f.bench, f.newRuns()
	x := &InFlight{
		Hold: b.cfg.Hold.Seconds(), Ramp: b.cfg.Ramp.Seconds(), Beside: w.n, BesideRate: w.rate, RenewalsAlone: -1, Renewals: -1,
	}
	before, at := f.renewals(ctx), time.Now()
	alone, err := b.run(ctx, f.sys, w)
	if err != nil {
		return nil, err
	}
	x.LatenessAlone, x.RenewalsAlone = alone.Lateness, perSecond(before, f.renewals(ctx), at)

	r := b.result(ctx, f.sys, "F", string(f.target), f.target, f.round)
	r.N, r.Span, r.Rate, r.Flight = f.n, x.Ramp, float64(f.n)/x.Ramp, x
	if err := b.quiet(ctx, f.sys); err != nil {
		return nil, err
	}
	if x.Held.Before, err = f.held(ctx); err != nil {
		return nil, err
	}
	beside, err := b.callee(ctx, f.sys, httpTarget)
	if err != nil {
		return nil, err
	}
	err = f.runBeside(ctx, r, beside, w)
	return r, errors.Join(err, beside.end())
}

// runBeside takes everything in and measures while it runs.
func (f *flight) runBeside(ctx context.Context, r *Result, beside callee, w batch) error {
	b, x := f.bench, r.Flight
	m := b.meter(ctx, f.sys)
	t0 := time.Now().Add(b.importLead(f.n+w.n, leadLeast)).Truncate(time.Second).UTC()
	t1 := t0.Add(b.cfg.Ramp + settleFor + readFor(f.n)) // when those beside fall due
	own, others := f.jobs(t0), b.jobs(w.n, t1, w.span, httpTarget, beside.url)
	var err error
	if r.Load, err = b.load(ctx, f.sys, own); err != nil {
		return err
	}
	if _, err := b.load(ctx, f.sys, others); err != nil {
		return err
	}
	r.noteLate(time.Now(), t0)
	m.cpu = b.cpu(f.sys) // the imports do not count
	if err := wait.Until(ctx, t0.Add(b.cfg.Ramp+settleFor)); err != nil {
		return err
	}
	x.Peak = f.running(ctx)
	if x.Held.After, err = f.held(ctx); err != nil {
		return err
	}
	x.RSS = (x.Held.After.RSS - x.Held.Before.RSS) / float64(max(x.Peak, 1))
	x.Heap = (x.Held.After.Heap - x.Held.Before.Heap) / float64(max(x.Peak, 1))
	if late := time.Now(); late.After(t1) {
		r.Notes = append(r.Notes, fmt.Sprintf("the reading of memory ended %.1f s after the first run beside was due", late.Sub(t1).Seconds()))
	}
	renewed, at := f.renewals(ctx), time.Now()
	if err := wait.Until(ctx, t1.Add(w.span)); err != nil {
		return err
	}
	x.Peak = max(x.Peak, f.running(ctx))
	if first := t0.Add(b.cfg.Hold); time.Now().After(first) {
		r.Notes = append(r.Notes, fmt.Sprintf("answers began %.1f s before the last run beside was due", time.Since(first).Seconds()))
	}
	x.Renewals = perSecond(renewed, f.renewals(ctx), at)
	if err := f.untilDone(ctx, m, t0, w); err != nil {
		return err
	}
	grew := m.costs(ctx, r, f.n+w.n)
	x.Succeeded = max(0, int(grew[metricSucceeded])-w.n)
	r.Early = int(grew[metricEarly])
	if err := f.judge(r, beside, own, others, t0, t1); err != nil {
		return err
	}
	became, err := b.outcomes(ctx, f.sys, "", t0, t1.Add(w.span), r.Load)
	if err != nil {
		return err
	}
	became.fill(r, f.n+w.n, true)
	return nil
}

// judge fills in what the sinks saw.
func (f *flight) judge(r *Result, beside callee, own, others jobs, t0, t1 time.Time) error {
	if err := errors.Join(beside.end(), f.called.end()); err != nil { // who may be ended again
		return err
	}
	var near Result
	seen, err := readSeen(beside.sink.Record)
	if err != nil {
		return err
	}
	near.fromSink(others, t1, time.Time{}, seen)
	r.Flight.Lateness = near.Lateness
	if near.Missed > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("of the runs beside %d did not come", near.Missed))
	}
	if f.called.sink != nil {
		if seen, err = readSeen(f.called.sink.Record); err != nil {
			return err
		}
		r.fromSink(own, t0, time.Time{}, seen)
	}
	r.Missed, r.Early = near.Missed+max(0, f.n-r.Flight.Succeeded), r.Early+near.Early
	return nil
}

// untilDone waits until all runs have succeeded, at most Config.Wait after the last should have.
func (f *flight) untilDone(ctx context.Context, m *meter, t0 time.Time, w batch) error {
	limit := t0.Add(f.bench.cfg.Ramp + f.bench.cfg.Hold + f.bench.cfg.Wait)
	ok, err := wait.Poll(ctx, 10*scrapeEvery, limit, func() (bool, error) {
		return int(m.mark(ctx).Less(m.before)[metricSucceeded]) >= f.n+w.n, nil
	})
	if err == nil && !ok {
		f.bench.cfg.Log.Warn("not all runs have succeeded, and the wait is over")
	}
	return err
}

// executor returns the process, the API and the listener of profiles of the node that executes.
func (f *flight) executor() (pid int, node, profiles string, err error) {
	c, ok := f.sys.(*clusterSystem)
	if !ok {
		return f.sys.pids()[nodeKind], f.sys.nodes()[0], slices.Concat(f.sys.profiles(), []string{""})[0], nil
	}
	for i, n := range c.status().Carillon {
		if slices.Contains(n.Roles, roleExecute) && n.State == cluster.Running {
			at, err := url.Parse(n.API)
			if err != nil {
				return 0, "", "", fmt.Errorf("find executor: %w", err)
			}
			return n.PID, n.API, "http://" + net.JoinHostPort(at.Hostname(), strconv.Itoa(firstProfiles+i)), nil
		}
	}
	return 0, "", "", errors.New("find executor: none runs")
}

// metrics returns the executor's metrics.
func (f *flight) metrics(ctx context.Context) (metrics.Values, error) {
	_, node, _, err := f.executor()
	if err != nil {
		return nil, err
	}
	return metrics.Read(ctx, f.bench.client, node+"/metrics", scrapeTimeout)
}

// held returns the executor's memory after a collection.
func (f *flight) held(ctx context.Context) (Held, error) {
	pid, _, profiles, err := f.executor()
	if err != nil {
		return Held{}, err
	}
	if profiles != "" {
		f.bench.collect(ctx, profiles)
	}
	rss, err := process.Resident(pid)
	if err != nil {
		return Held{}, err
	}
	v, err := f.metrics(ctx)
	if err != nil {
		return Held{}, fmt.Errorf("read memory: %w", err)
	}
	h := heapOf(v)
	h.RSS = rss
	return h, nil
}

// running returns how many attempts the executor says are under way; 0 if it does not answer.
func (f *flight) running(ctx context.Context) int {
	v, err := f.metrics(ctx)
	if err != nil {
		f.bench.cfg.Log.Warn("what is under way is not known", "err", err)
	}
	return int(v[metricRunning])
}

// renewals returns how often sessions were renewed so far; −1 where that is not counted.
func (f *flight) renewals(ctx context.Context) float64 {
	v, _ := f.metrics(ctx) // of an executor that does not answer nothing is known
	n, told := 0.0, false
	for key, x := range v {
		if strings.HasPrefix(key, metricStatements+"{") && strings.Contains(key, `statement="renew_session"`) {
			n, told = n+x, true
		}
	}
	if !told {
		return -1
	}
	return n
}

// perSecond returns the rate from one count to another since at; −1 if either is not known.
func perSecond(from, to float64, at time.Time) float64 {
	if from < 0 || to < from {
		return -1
	}
	return (to - from) / time.Since(at).Seconds()
}

// writeCertificate writes a certificate for the addresses of sinks with its key, and the authority's.
// A process that trusts that (SSL_CERT_FILE) talks to the sink as to any server.
func writeCertificate(trusted, sink string, now time.Time) error {
	var ips []net.IP
	for i := range addressesFor(h2Target, 0) {
		ips = append(ips, net.ParseIP(heldHost(i)))
	}
	authority, server, err := cluster.NewCertificate(ips, "carillon-load", now)
	if err = errors.Join(err, os.WriteFile(trusted, authority, 0o600), os.WriteFile(sink, server, 0o600)); err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	return nil
}
