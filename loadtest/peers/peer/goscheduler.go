package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/metrics"
	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/server"
)

const (
	// Calls at the same time: there is no call for many schedules. Its table has a materialized view, for which Cassandra locks the partition
	// of each write, and what waits longer than its limit for a write fails: it did with 64 calls and 31 partitions, on a busy machine.
	goschedulerInserters = 16
	goschedulerPart      = 100
	// goschedulerTries is how often an insertion is tried that it answers with 5xx; it may make a schedule twice by that.
	goschedulerTries = 5

	// Its pollers, each with a Cassandra partition a minute. It takes the partition from the digits of a hexadecimal id, so that of 16
	// some would stay empty; a prime number spreads them.
	goschedulerPollers = 61
	// Calls at a time. It keeps two idle connections, whatever it is told, so with more callers most calls open one: of 2, 10, 50 and 200
	// these were fastest to be done with a minute of 10,000 runs, in trials on a busy machine.
	goschedulerCallers = 2

	goschedulerApp   = "bench"
	goschedulerFirst = "first" // the app whose only schedule comes before all others

	// A poller looks at the minute that it is, once a minute from its start on. We start ours so long after the start of a minute: as
	// early in each as is safe, since one that looked just before would leave a whole minute out.
	goschedulerPoll = 500 * time.Millisecond
	// What is ready falls due with the next minute, if that is not nearer than this.
	goschedulerAhead = 2 * time.Second
	// goschedulerLook bounds how often its counters are read.
	goschedulerLook = 500 * time.Millisecond
	mostAnswer      = 8 << 20 // bytes: a page of its counters
)

// goscheduler is a node of goscheduler on a Cassandra of its own.
//
// It cuts the instant of a schedule to its minute, and runs what is of a minute when the poller looks at it: at its start, up to a
// minute early. With roundUp the caller rounds up to the next minute, so that none is early. What is inserted into a minute after its
// poll is never run.
type goscheduler struct {
	checkout string
	roundUp  bool
	log      *slog.Logger

	cassandra *server.Cassandra
	program   *server.Goscheduler
	api       string // its URL
	client    *http.Client
	address   func(measure.Job) string
	inserted  atomic.Int64
	looked    time.Time // when left was found; only Unfinished uses both
	left      int
}

var (
	_ measure.Caller = (*goscheduler)(nil)
	_ measure.Coarse = (*goscheduler)(nil)
)

// Name implements measure.Peer.
func (g *goscheduler) Name() string {
	if g.roundUp {
		return "goscheduler-punctual"
	}
	return "goscheduler"
}

// Settings implements measure.Peer.
func (g *goscheduler) Settings() measure.Settings {
	s := measure.Settings{
		Durability: server.CassandraDurability(),
		Versions:   map[string]string{"goscheduler": g.program.Version()},
		Tuning: map[string]string{
			"insert":                 fmt.Sprintf("%d calls at a time", goschedulerInserters),
			"partitions":             strconv.Itoa(goschedulerPollers),
			"HttpConnector.Routines": strconv.Itoa(goschedulerCallers),
			"pollers":                "look " + goschedulerPoll.String() + " after the start of a minute",
		},
	}
	if g.roundUp {
		s.Tuning["scheduleTime"] = "rounded up to whole minutes by the caller"
	}
	return s
}

// Granule implements measure.Coarse.
func (g *goscheduler) Granule() time.Duration { return time.Minute }

// CallAt implements measure.Caller.
func (g *goscheduler) CallAt(address func(measure.Job) string) { g.address = address }

// Start implements measure.Peer.
func (g *goscheduler) Start(ctx context.Context, dir string) (err error) {
	if g.cassandra, err = server.StartCassandra(ctx, dir, g.log); err != nil {
		return err
	}
	g.program, err = server.StartGoscheduler(ctx, dir, server.GoschedulerConfig{
		Checkout: g.checkout, CQL: g.cassandra.CQL(), Callers: goschedulerCallers,
	})
	if err != nil {
		return err
	}
	g.api = g.program.URL()
	g.client = &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: goschedulerInserters, DisableCompression: true},
	}
	// It makes each of its counters at their first use, and may end if two ask for one at the same time. So one schedule goes through all of
	// it alone, while we wait for the start of a minute.
	if err := g.sleepUntil(ctx, clearOfEnd(time.Now())); err != nil {
		return err
	}
	if err := g.register(ctx, goschedulerFirst, 1); err != nil {
		return err
	}
	polled := time.Now().Add(time.Minute)
	if err := g.insert(ctx, goschedulerFirst, http.MethodGet, g.program.HealthURL(), "{}", polled.Truncate(time.Minute)); err != nil {
		return err
	}
	if err := g.sleepUntil(ctx, time.Now().Truncate(time.Minute).Add(time.Minute+goschedulerPoll)); err != nil {
		return err
	}
	if err := g.register(ctx, goschedulerApp, goschedulerPollers); err != nil {
		return err
	}
	for {
		done, err := g.done(ctx, goschedulerFirst)
		if err != nil || done > 0 {
			return err
		}
		if err := g.sleepUntil(ctx, time.Now().Add(goschedulerLook)); err != nil {
			return fmt.Errorf("await the first run: %w", err)
		}
	}
}

// clearOfEnd returns now, or the start of the next minute if that is so near that a minute more may be of either.
func clearOfEnd(now time.Time) time.Time {
	if next := now.Truncate(time.Minute).Add(time.Minute); next.Sub(now) < goschedulerAhead {
		return next
	}
	return now
}

// scheduleTime returns the instant, in whole seconds, that a run due at due is inserted with; the zero time is ready.
func scheduleTime(due, now time.Time, roundUp bool) time.Time {
	switch {
	case due.IsZero():
		return now.Add(goschedulerAhead + time.Minute).Truncate(time.Minute)
	case roundUp:
		return due.Add(time.Minute - 1).Truncate(time.Minute)
	default:
		return due.Truncate(time.Second)
	}
}

// Enqueue implements measure.Peer.
func (g *goscheduler) Enqueue(ctx context.Context, wave, n, payload int, at func(int) time.Time) error {
	text := "{}" // it takes none that is empty
	if payload > 0 {
		text = measure.Pad(payload)
	}
	return inParts(ctx, n, goschedulerPart, goschedulerInserters, func(ctx context.Context, from, to int) error {
		for i := from; i < to; i++ {
			address := g.address(measure.Job{Wave: wave, I: i})
			if err := g.insert(ctx, goschedulerApp, http.MethodPost, address, text, scheduleTime(at(i), time.Now(), g.roundUp)); err != nil {
				return err
			}
			g.inserted.Add(1)
		}
		return nil
	})
}

// register makes an app, whose pollers start at once.
func (g *goscheduler) register(ctx context.Context, app string, pollers int) error {
	return g.post(ctx, "/goscheduler/apps", map[string]any{"appId": app, "partitions": pollers, "active": true})
}

// insert makes a schedule.
func (g *goscheduler) insert(ctx context.Context, app, method, address, payload string, at time.Time) error {
	schedule := map[string]any{
		"appId": app, "payload": payload, "scheduleTime": at.Unix(),
		"callback": map[string]any{"type": "http", "details": map[string]any{"url": address, "method": method, "headers": map[string]string{}}},
	}
	for try := 1; ; try++ {
		err := g.post(ctx, "/goscheduler/schedules", schedule)
		if !errors.Is(err, errTheirs) || try == goschedulerTries {
			return err
		}
		g.log.Warn("insert once more", "err", err)
	}
}

// errTheirs says that goscheduler answered with 5xx.
var errTheirs = errors.New("goscheduler failed")

func (g *goscheduler) post(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = g.ask(ctx, http.MethodPost, path, text)
	return err
}

// ask calls its API and returns the answer.
func (g *goscheduler) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	a, err := api.Ask(ctx, g.client, api.Request{Method: method, URL: g.api + path, Body: body, Most: mostAnswer})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	case a.Status >= 500:
		return nil, fmt.Errorf("%w: %s %s: %d: %.500s", errTheirs, method, path, a.Status, a.Body)
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("%s %s: %d: %.500s", method, path, a.Status, a.Body)
	}
	return a.Body, nil
}

// RunWorkers implements measure.Peer: its callers run all the time, and no handler of ours with them.
func (g *goscheduler) RunWorkers(ctx context.Context, _ measure.Handler) error {
	select {
	case <-ctx.Done():
		return nil
	case <-g.program.Ended():
		return g.program.Why()
	}
}

// Unfinished implements measure.Peer, by goscheduler's own counters, which are at most half a second old. It does not tell what is in its
// store and never will be run from what is still to be run.
func (g *goscheduler) Unfinished(ctx context.Context) (int, error) {
	if time.Since(g.looked) < goschedulerLook {
		return g.left, nil
	}
	done, err := g.done(ctx, goschedulerApp)
	if err != nil {
		return 0, err
	}
	g.looked, g.left = time.Now(), max(int(g.inserted.Load())-done, 0)
	return g.left, nil
}

// done returns how many runs of an app have ended.
func (g *goscheduler) done(ctx context.Context, app string) (int, error) {
	text, err := g.ask(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	return parseDone(text, app)
}

// parseDone adds up the runs of an app that have ended, well or not, from a page of metrics.
func parseDone(page []byte, app string) (int, error) {
	values, err := metrics.Parse(bytes.NewReader(page))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for key, n := range values { // labels are in the order of their names
		if strings.HasPrefix(key, `callback_status_count{appId="`+app+`",`) &&
			(strings.HasSuffix(key, `status="Success"}`) || strings.HasSuffix(key, `status="Fail"}`)) {
			sum += n
		}
	}
	return int(sum), nil
}

// sleepUntil waits for an instant, and fails if ctx ends or the program does.
func (g *goscheduler) sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-g.program.Ended():
		return g.program.Why()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Servers implements measure.Peer.
func (g *goscheduler) Servers() map[string]int {
	return map[string]int{"cassandra": g.cassandra.PID(), "goscheduler": g.program.PID()}
}

// Stop implements measure.Peer.
func (g *goscheduler) Stop(ctx context.Context) error {
	var errs []error
	if g.client != nil {
		g.client.CloseIdleConnections()
	}
	if g.program != nil {
		errs = append(errs, g.program.Stop(ctx))
	}
	if g.cassandra != nil {
		errs = append(errs, g.cassandra.Stop(ctx))
	}
	return errors.Join(errs...)
}
