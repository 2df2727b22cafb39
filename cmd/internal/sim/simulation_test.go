package sim

import (
	"bytes"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/schema"
)

// seeds returns how many seeds of a scenario to run, and the first: own (in short tests a sixteenth
// of them, and none of a long scenario), unless the environment says which part of them
// (CARILLON_SIM_PART, 2 = half), how many of each scenario (CARILLON_SIM_SEEDS), how many of all
// short scenarios and of all long ones together (CARILLON_SIM_SHORT, CARILLON_SIM_LONG), from which
// one on (CARILLON_SIM_FIRST), or which one (CARILLON_SIM_SEED).
func seeds(t *testing.T, scenarios []play, s *Scenario, own int) (first uint64, n int) {
	t.Helper()
	n = own
	part, ok := number(t, "CARILLON_SIM_PART")
	switch {
	case testing.Short() && s.long():
		n = 0
	case testing.Short():
		n = (own + 15) / 16
	case ok:
		n = (own + part - 1) / part
	}
	if v, ok := number(t, "CARILLON_SIM_SEEDS"); ok {
		n = v
	}
	all, of := "CARILLON_SIM_SHORT", 0
	if s.long() {
		all = "CARILLON_SIM_LONG"
	}
	for i := range scenarios {
		if scenarios[i].long() == s.long() {
			of++
		}
	}
	if v, ok := number(t, all); ok {
		n = (v + of - 1) / of
	}
	first = 1
	if v, ok := number(t, "CARILLON_SIM_FIRST"); ok {
		first = uint64(v) //nolint:gosec // it is not negative
	}
	if v := os.Getenv("CARILLON_SIM_SEED"); v != "" {
		var err error
		if first, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("CARILLON_SIM_SEED: %v", err)
		}
		n = 1
	}
	return first, n
}

func number(t *testing.T, variable string) (n int, ok bool) {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		return 0, false
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		t.Fatalf("%s = %q, want a number", variable, v)
	}
	return n, true
}

// long reports whether the scenario takes longer than others.
func (s *Scenario) long() bool { return s.Span > 3*time.Minute }

const (
	// lateByClock bounds lateness where clocks are set wrong, one at a time: what a clock may be
	// off, and the time until others have the shards of the halted node.
	lateByClock = trusted + queue.AckWait
	// lateByCut is how late a run may be where a node is cut from store or queue: by what it takes
	// to count as unhealthy, and others to take over. A run due at once whose hint is lost waits
	// for the sweep, which may take as long.
	lateByCut = 21 * time.Second
	// lateByFlap is how late a run may be where the link to the queue flaps: its hint is lost, so
	// the sweep finds it, and what the sweep publishes is lost as well, twice at most. Each time it
	// is published again 250 ms after the time-out, which is another part of the link's two
	// seconds.
	lateByFlap = lateByCut + 2*(inproc.PublishTimeout+250*time.Millisecond)
)

// atMostOff is the largest offset of a clock that is still right.
const atMostOff = schema.MaxClockOffset - 100*time.Millisecond

// play is a scenario as the tests run it.
type play struct {
	name  string
	seeds int
	Scenario
	// happens names counters that must not be 0 over all seeds, so that the scenario tests
	// something.
	happens []string
}

var scenarios = []play{
	{"nothing goes wrong", 4, Scenario{Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, Lag: 4}}, nil},
	{"nothing goes wrong for long", 3, Scenario{
		Span: 12 * time.Minute, Jobs: 300, Lasting: 9 * time.Minute,
		Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, Lag: 5},
	}, []string{replaced}},
	{"nodes are killed", 30, Scenario{Kills: 6}, nil},
	{"nodes are told to stop, and come back", 20, Scenario{
		Stops: 8, Jobs: 900, Works: 800 * time.Millisecond, Promise: Promise{CalledOnce: true, NoneLost: true},
	}, []string{redispatched}},
	{"the only node is told to stop, and comes back", 10, Scenario{
		Nodes: 1, Stops: 6, Jobs: 600, Works: 800 * time.Millisecond, Promise: Promise{CalledOnce: true, NoneLost: true},
	}, []string{redispatched}},
	{"nodes freeze", 30, Scenario{Freezes: 6}, []string{halts}},
	{"messages are lost, doubled and late", 30, Scenario{Faults: Faults{Message: 0.03}}, nil},
	{"the store fails, and does what it says it did not", 40, Scenario{Faults: Faults{Store: 0.01}}, nil},
	{"the stream is deleted", 20, Scenario{StreamLosses: 4, Promise: Promise{NoneLost: true}}, nil},
	{"callees fail and are slow", 20, Scenario{Faults: Faults{Target: 0.1}, Promise: Promise{NoneLost: true}}, nil},
	{"clocks are off", 20, Scenario{Skew: time.Second, Kills: 2}, nil},
	{"cursors lie in the future", 10, Scenario{CursorsAhead: 4, Promise: Promise{Lateness: time.Second, NoneLost: true, Lag: 70}}, []string{cursorsAhead}},
	{"cursors lie in the future, and nodes are killed", 20, Scenario{CursorsAhead: 4, Kills: 4, Promise: Promise{Lag: 70}}, []string{cursorsAhead}},
	{"a node is cut from the store", 6, Scenario{
		Span: 7 * time.Minute, Jobs: 2000, Shards: 6, Guarantees: true, Cuts: Cuts{Links: []link{toStore}, Count: 1, Each: 5 * time.Minute}, Promise: Promise{Lateness: lateByCut},
	}, []string{takeovers}},
	{"a node is cut from the queue", 6, Scenario{
		Span: 7 * time.Minute, Jobs: 250, Shards: 6, Guarantees: true, Cuts: Cuts{Links: []link{toQueue}, Count: 1, Each: 5 * time.Minute}, Promise: Promise{Lateness: lateByCut},
	}, []string{takeovers}},
	{"a node is cut from the ring", 6, Scenario{
		Span: 3 * time.Minute, Shards: 6, Cuts: Cuts{Links: []link{toRing}, Count: 2, Each: time.Minute}, Promise: Promise{Lateness: 5 * time.Second},
	}, []string{takeovers}},
	{"links flap", 6, Scenario{
		Span: 3 * time.Minute, Shards: 6, Cuts: Cuts{Links: []link{toStore, toQueue, toRing}, Count: 1, Each: 2 * time.Minute, Flap: time.Second}, Promise: Promise{Lateness: lateByFlap},
	}, nil},
	{"links of all nodes are cut", 6, Scenario{
		Span: 3 * time.Minute, Shards: 6, Cuts: Cuts{Links: []link{toStore, toQueue}, Count: 1, Each: time.Minute, All: true}, Promise: Promise{Lateness: time.Minute + 5*time.Second},
	}, nil},
	{"writes come minutes late, and nodes are killed", 20, Scenario{
		Kills: 8, Jobs: 300, LateBy: 4 * time.Minute, Faults: Faults{Store: 0.03},
	}, []string{lateRows}},
	{"workflows, and nothing goes wrong", 4, Scenario{Jobs: 20, Workflows: 12, Changes: true}, nil},
	{"workflows, and nodes are killed", 8, Scenario{Jobs: 20, Workflows: 12, Changes: true, Kills: 6}, nil},
	{"workflows, and nodes freeze", 6, Scenario{Jobs: 20, Workflows: 12, Freezes: 6}, []string{halts}},
	{"workflows, and messages are lost, doubled and late", 8, Scenario{Jobs: 20, Workflows: 12, Changes: true, Faults: Faults{Message: 0.03}}, nil},
	{"workflows, and the store fails", 10, Scenario{Jobs: 20, Workflows: 12, Changes: true, Faults: Faults{Store: 0.01}}, nil},
	{"workflows, and everything fails", 12, Scenario{
		Jobs: 20, Workflows: 12, Changes: true, Kills: 3, Freezes: 2, StreamLosses: 2, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, nil},
	{"workflows have limits, and nothing goes wrong", 2, Scenario{Jobs: 20, Workflows: 12, WorkflowLimits: true}, nil},
	{"workflows have limits, and everything fails", 10, Scenario{
		Jobs: 20, Workflows: 12, WorkflowLimits: true, Changes: true, Kills: 3, Freezes: 2, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, nil},
	{"events, and nothing goes wrong", 3, Scenario{Jobs: 20, Events: 30}, nil},
	{"events, and nodes are killed", 8, Scenario{Jobs: 20, Events: 30, Kills: 6}, nil},
	{"events, and nodes freeze", 6, Scenario{Jobs: 20, Events: 30, Freezes: 6}, []string{halts}},
	{"events, and the store fails", 8, Scenario{Jobs: 20, Events: 30, Faults: Faults{Store: 0.01}}, nil},
	{"events of the system, while callees and nodes fail", 10, Scenario{
		Jobs: 60, Events: 3, Guarantees: true, Kills: 4, Faults: Faults{Store: 0.005, Target: 0.4, Crash: 0.002},
	}, nil},
	{"events, and everything fails", 10, Scenario{
		Jobs: 20, Events: 30, Workflows: 4, Kills: 3, Freezes: 2, StreamLosses: 2, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, nil},
	{"jobs after jobs, and nothing goes wrong", 2, Scenario{Jobs: 20, Joins: 12, Changes: true}, nil},
	{"jobs after jobs, and nodes are killed", 4, Scenario{Jobs: 20, Joins: 12, Changes: true, Kills: 6}, nil},
	{"jobs after jobs, and messages are lost, doubled and late", 3, Scenario{Jobs: 20, Joins: 12, Faults: Faults{Message: 0.03}}, nil},
	{"jobs after jobs, and the store fails", 4, Scenario{Jobs: 20, Joins: 12, Changes: true, Faults: Faults{Store: 0.01}}, nil},
	{"jobs after jobs, and everything fails", 8, Scenario{
		Jobs: 20, Joins: 12, Changes: true, Kills: 3, Freezes: 2, StreamLosses: 2, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.1, Crash: 0.001},
	}, nil},
	{"writes come late by up to an hour, and nodes are killed", 3, Scenario{
		Span: 20 * time.Minute, Kills: 8, Jobs: 400, LateFrom: 20 * time.Minute, LateBy: time.Hour, Faults: Faults{Store: 0.03},
	}, []string{lateRows}},
	{"writes come minutes late, and nodes crash between the steps of attempts", 10, Scenario{
		Guarantees: true, Changes: true, LateBy: 4 * time.Minute, Faults: Faults{Store: 0.02, Crash: 0.005, Target: 0.15},
	}, nil},
	{"jobs recur while writes come minutes late, and nodes are killed", 6, Scenario{
		Jobs: 60, Recurring: 12, Changes: true, Kills: 6, LateBy: 4 * time.Minute, Faults: Faults{Store: 0.02},
	}, nil},
	{"clocks are set, one at a time", 30, Scenario{Steps: 5, InTurn: true, Promise: Promise{Lateness: lateByClock, NoneLost: true}}, []string{halts}},
	{"clocks are set, one at a time, and each machine has its own Cassandra and NATS", 30, Scenario{
		Steps: 5, InTurn: true, CoLocated: true, Promise: Promise{Lateness: lateByClock, NoneLost: true},
	}, []string{halts}},
	{"clocks are set, one at a time, while nodes of such machines are killed", 20, Scenario{
		Steps: 5, InTurn: true, CoLocated: true, Kills: 4, Changes: true, Guarantees: true, Faults: Faults{Store: 0.01, Message: 0.01},
	}, []string{halts}},
	{"clocks are set while runs last", 6, Scenario{
		Span: 12 * time.Minute, Jobs: 200, Lasting: 9 * time.Minute, Steps: 8, InTurn: true, Promise: Promise{Lateness: lateByClock, NoneLost: true, Lag: 6},
	}, []string{halts, replaced}},
	{"clocks are set, and the stream is deleted", 20, Scenario{Steps: 8, StreamLosses: 4, Changes: true, Promise: Promise{NoneLost: true}}, []string{halts}},
	{"clocks are set while everything fails", 30, Scenario{
		Steps: 6, Kills: 2, Freezes: 2, Changes: true, Faults: Faults{Store: 0.01, Message: 0.01},
	}, []string{halts}},
	{"clocks are set while callees and everything else fail", 16, Scenario{
		Steps: 12, Kills: 1, Freezes: 1, Faults: Faults{Store: 0.03, Message: 0.01, Target: 0.06},
	}, []string{halts}},
	{"clocks are set while callees and everything else fail, and runs are moved", 16, Scenario{
		Steps: 6, Kills: 2, Freezes: 2, Changes: true, Faults: Faults{Store: 0.01, Message: 0.01, Target: 0.02},
	}, []string{halts}},
	{"runs are cancelled and moved", 30, Scenario{Changes: true}, nil},
	{"runs are cancelled and moved while everything fails", 50, Scenario{
		Changes: true, Kills: 3, Freezes: 2, Faults: Faults{Store: 0.01, Message: 0.01},
	}, nil},
	{"jobs recur, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Recurring: 12, Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, NoneGivenUp: true, Lag: 4},
	}, nil},
	{"jobs recur and change", 6, Scenario{Jobs: 20, Recurring: 12, Changes: true, Promise: Promise{NoneLost: true, NoneGivenUp: true}}, nil},
	{"jobs recur while nodes are killed and freeze", 8, Scenario{Jobs: 20, Recurring: 12, Kills: 4, Freezes: 4, Changes: true}, []string{halts}},
	{"jobs recur under all guarantees while nodes are killed and freeze", 8, Scenario{
		Jobs: 20, Recurring: 18, Guarantees: true, Kills: 6, Freezes: 4, Changes: true, Faults: Faults{Target: 0.05, Crash: 0.001},
	}, []string{halts}},
	{"jobs recur while the store and messages fail", 10, Scenario{
		Jobs: 20, Recurring: 12, Changes: true, Faults: Faults{Store: 0.01, Message: 0.01},
	}, nil},
	{"jobs recur, and nobody runs for ten minutes", 4, Scenario{
		Jobs: 20, Recurring: 12, Outage: 10 * time.Minute, Promise: Promise{Policies: true},
	}, nil},
	{"jobs recur by calendars that change, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Recurring: 12, Calendars: true, Changes: true, Promise: Promise{NoneLost: true, NoneGivenUp: true},
	}, nil},
	{"jobs recur by calendars that change while nodes are killed and freeze", 4, Scenario{
		Jobs: 20, Recurring: 12, Calendars: true, Changes: true, Kills: 4, Freezes: 3, Faults: Faults{Store: 0.005, Crash: 0.001},
	}, []string{halts}},
	{"recurring jobs are imported, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Imported: 30, Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, NoneGivenUp: true, Lag: 4},
	}, []string{imported}},
	{"recurring jobs are imported, and nodes are killed and the store fails", 8, Scenario{
		Jobs: 20, Imported: 50, Guarantees: true, Kills: 8, Faults: Faults{Store: 0.02, Message: 0.01, Crash: 0.001},
	}, []string{imported}},
	{"jobs recur while clocks are off", 4, Scenario{Jobs: 20, Recurring: 12, Changes: true, Skew: time.Second, Kills: 2}, nil},
	{"jobs recur while everything fails", 10, Scenario{
		Jobs: 20, Recurring: 12, Changes: true, Kills: 3, Freezes: 3, StreamLosses: 1, Steps: 4, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05},
	}, []string{halts}},
	{"jobs have deadlines, and nobody runs for three minutes", 3, Scenario{
		Deadlines: true, Guarantees: true, Outage: 3 * time.Minute,
	}, []string{missedByPolicy}},
	{"jobs have deadlines, and everything fails", 6, Scenario{
		Deadlines: true, Guarantees: true, Kills: 4, Freezes: 3, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, nil},
	{"all guarantees, and nothing goes wrong", 3, Scenario{
		Guarantees: true, Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, Lag: 4},
	}, nil},
	{"all guarantees, and nodes crash between the steps of attempts", 30, Scenario{
		Guarantees: true, Away: 10 * time.Second, Faults: Faults{Crash: 0.01, Target: 0.25},
	}, crashPoints(attemptSteps)},
	{"all guarantees, and nodes are killed and freeze", 20, Scenario{Guarantees: true, Kills: 6, Freezes: 6}, []string{halts}},
	{"all guarantees, and clocks are as far off as they may be", 20, Scenario{
		Guarantees: true, Skew: atMostOff, SkewEnds: true, Kills: 12, Faults: Faults{Target: 0.3},
	}, nil},
	{"all guarantees, and machines with their own Cassandra and NATS are as far apart as they may be", 20, Scenario{
		Guarantees: true, Skew: atMostOff / 2, SkewEnds: true, CoLocated: true, Kills: 12, Changes: true, Faults: Faults{Target: 0.3},
	}, nil},
	{"all guarantees, and nodes are back at once", 20, Scenario{
		Guarantees: true, Kills: 12, Away: 500 * time.Millisecond, Faults: Faults{Target: 0.15, Crash: 0.002},
	}, nil},
	{"all guarantees, and everything fails", 40, Scenario{
		Guarantees: true, Changes: true, Kills: 2, Freezes: 4, StreamLosses: 1, Faults: Faults{Store: 0.01, Message: 0.01, Target: 0.05, Crash: 0.002},
	}, []string{halts}},
	{"jobs pause when their runs fail, and nothing goes wrong", 2, Scenario{Jobs: 20, Pausing: 6}, nil},
	{"jobs pause when their runs fail, and nodes are killed", 4, Scenario{Jobs: 20, Pausing: 6, Kills: 6, Faults: Faults{Store: 0.005, Message: 0.01, Crash: 0.001}}, nil},
	{"jobs have limits, and nothing goes wrong", 3, Scenario{
		Jobs: 20, Limited: 9, Promise: Promise{Once: true, NoneLost: true, Lag: 4},
	}, []string{limitGrants}},
	{"runs wait for longer than rows stay, and nothing goes wrong", 2, Scenario{Jobs: -1, Waiting: true, Span: 5 * time.Hour}, []string{limitGrants, deferred, replaced}},
	{"runs wait for longer than rows stay, and nodes are killed", 2, Scenario{
		Jobs: -1, Waiting: true, Span: 5 * time.Hour, Kills: 6, Faults: Faults{Store: 0.002},
	}, []string{limitGrants, deferred, replaced}},
	{"runs wait for longer than their tenant keeps rows, and nothing goes wrong", 1, Scenario{
		Jobs: -1, Waiting: true, Retained: true, Span: 5 * time.Hour,
	}, []string{limitGrants, deferred, replaced}},
	{"runs wait for longer than their tenant keeps rows, and nodes are killed", 1, Scenario{
		Jobs: -1, Waiting: true, Retained: true, Span: 5 * time.Hour, Kills: 6, Faults: Faults{Store: 0.002},
	}, []string{limitGrants, deferred, replaced}},
	{"jobs have limits, and nodes are killed", 10, Scenario{Jobs: 20, Limited: 9, Guarantees: true, Kills: 6}, []string{limitGrants}},
	{"jobs have limits, and nodes crash between the steps of attempts", 10, Scenario{
		Jobs: 20, Limited: 9, Guarantees: true, Faults: Faults{Crash: 0.003},
	}, append(crashPoints(limitSteps), limitGrants)},
	{"jobs have limits, and the store, messages and callees fail", 10, Scenario{
		Jobs: 20, Limited: 9, Faults: Faults{Store: 0.01, Message: 0.01, Target: 0.1},
	}, []string{limitGrants}},
	{"jobs have limits, and everything fails", 10, Scenario{
		Jobs: 20, Limited: 9, Guarantees: true, Kills: 3, Freezes: 3, StreamLosses: 1, Steps: 3, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05},
	}, []string{limitGrants, halts}},
	{"jobs have limits for each value, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Limited: 6, LimitKeys: true, Promise: Promise{Once: true, NoneLost: true, Lag: 4},
	}, []string{limitGrants, apart}},
	{"jobs have limits for each value, and everything fails", 4, Scenario{
		Jobs: 20, Limited: 6, LimitKeys: true, Guarantees: true, Kills: 3, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{limitGrants, apart}},
	{"a task has a rate, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Rated: 240, Promise: Promise{Rated: true, NoneLost: true, Lag: 4},
	}, []string{deferred}},
	{"a task has a rate, and nodes are killed and freeze", 8, Scenario{Jobs: 20, Rated: 240, Kills: 4, Freezes: 4}, []string{deferred, halts}},
	{"a task has a rate, and nodes crash between the steps of attempts", 5, Scenario{
		Jobs: 20, Rated: 80, Guarantees: true, Away: 10 * time.Second, Faults: Faults{Crash: 0.002},
	}, append(crashPoints(rateSteps), deferred)},
	{"a task has a rate, and the store, messages and callees fail", 8, Scenario{
		Jobs: 20, Rated: 160, StreamLosses: 2, Faults: Faults{Store: 0.01, Message: 0.01, Target: 0.05},
	}, []string{deferred}},
	{"a task has a limit, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Concurrent: 90, Promise: Promise{Once: true, NoneLost: true, Lag: 4},
	}, []string{full}},
	{"a task has a limit, and nodes are killed", 10, Scenario{Jobs: 20, Concurrent: 90, Guarantees: true, Kills: 6}, []string{full}},
	{"a task has a limit, and nodes crash between the steps of attempts", 5, Scenario{
		Jobs: 20, Concurrent: 45, Guarantees: true, Faults: Faults{Crash: 0.003},
	}, append(crashPoints(concurrencySteps), full)},
	{"a task has a limit, and the store, messages and callees fail", 10, Scenario{
		Jobs: 20, Concurrent: 90, StreamLosses: 2, Faults: Faults{Store: 0.01, Message: 0.01, Target: 0.05},
	}, []string{full}},
	{"a task has a limit, and everything fails", 10, Scenario{
		Jobs: 20, Concurrent: 90, Guarantees: true, Kills: 3, Freezes: 3, StreamLosses: 1, Steps: 3, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05},
	}, []string{full, halts}},
	{"a tenant has a quota of runs at once, and nothing goes wrong", 2, Scenario{
		Jobs: -1, Limited: 3, Concurrent: 40, Quota: tenantQuota, Promise: Promise{Once: true, NoneLost: true, Lag: 4},
	}, []string{full}},
	{"a tenant has a quota of runs at once, and everything fails", 4, Scenario{
		Jobs: -1, Limited: 3, Concurrent: 40, Quota: tenantQuota, Guarantees: true, Kills: 3, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{full}},
	{"payloads are encrypted, and nothing goes wrong", 2, Scenario{
		Guarantees: true, Encrypted: true, Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, Lag: 4},
	}, []string{sealedRows}},
	{"payloads are encrypted, and everything fails", 4, Scenario{
		Jobs: 60, Limited: 6, LimitKeys: true, Workflows: 6, Guarantees: true, Encrypted: true,
		Kills: 3, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.3, Crash: 0.001},
	}, []string{sealedRows, limitGrants}},
	{"payloads are encrypted from the middle on, and everything fails", 4, Scenario{
		Guarantees: true, Changes: true, Encrypted: true, EncryptedLater: true,
		Kills: 4, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{sealedRows, clearRows}},
	{"a tenant has a quota of runs a minute, and nothing goes wrong", 2, Scenario{
		Jobs: 20, Recurring: 9, PerMinute: perMinute, Promise: Promise{Once: true, NoneLost: true},
	}, []string{full}},
	{"a tenant has a quota of runs a minute, and nodes are killed, crash and fail", 4, Scenario{
		Jobs: 20, Recurring: 9, PerMinute: perMinute, Guarantees: true, Kills: 4, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{full}},
	{"runs require labels, and an executor is away", 2, Scenario{Jobs: 20, Pooled: 45, Promise: Promise{NoneLost: true, Lag: 4}}, []string{unfit}},
	{"runs require labels, and executors come and go", 6, Scenario{
		Jobs: 20, Pooled: 45, Guarantees: true, Kills: 4, Stops: 2, Freezes: 2, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{unfit}},
	{"jobs are unique", 2, Scenario{Jobs: 1, Unique: 90, Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, Lag: 4}}, []string{existing}},
	{"jobs are unique, and nodes are killed", 4, Scenario{Jobs: 1, Unique: 90, Kills: 6, Skew: atMostOff, Faults: Faults{Store: 0.02, Message: 0.01}}, []string{existing}},
	{"critical runs find all slots taken, and nothing goes wrong", 2, Scenario{
		Jobs: -1, Preempting: 45, Promise: Promise{NoneLost: true, Lag: 4},
	}, []string{preempted}},
	{"critical runs find all slots taken, and nodes are killed, crash and fail", 6, Scenario{
		Jobs: -1, Preempting: 45, Kills: 3, Freezes: 2, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{preempted}},
	{"everything at once", 60, Scenario{
		Kills: 4, Freezes: 4, StreamLosses: 1, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05},
	}, nil},
	{"callees fail and nodes crash between steps for long, under all guarantees", 4, Scenario{
		Span: 12 * time.Minute, Jobs: 300, Lasting: 9 * time.Minute, Guarantees: true, Changes: true,
		Kills: 4, StreamLosses: 2, Away: 10 * time.Second, Faults: Faults{Crash: 0.01, Target: 0.15},
	}, append(crashPoints(longSteps), replaced, "lost")},
	{"jobs recur, and jobs and tasks have limits, while nodes crash for long", 2, Scenario{
		Span: 12 * time.Minute, Jobs: 60, Lasting: 9 * time.Minute, Recurring: 6, Limited: 9, Rated: 400, Concurrent: 120, Guarantees: true, Changes: true,
		Kills: 4, StreamLosses: 1, Away: 10 * time.Second, Faults: Faults{Store: 0.002, Message: 0.005, Target: 0.05, Crash: 0.0002},
	}, []string{limitGrants, deferred, full, "lost"}},
	{"everything at once for long", 4, Scenario{
		Span: 12 * time.Minute, Jobs: 300, Lasting: 9 * time.Minute, Guarantees: true,
		Kills: 8, Freezes: 6, StreamLosses: 2, Steps: 8, Changes: true, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001},
	}, []string{replaced, halts}},
}

// TestSimulation: whatever is done to the nodes, nothing acknowledged is missed, nothing starts
// early, nothing runs that was not asked for, and no run ends twice. See seeds for how many.
func TestSimulation(t *testing.T) { playAll(t, scenarios) }

// playAll runs the seeds of each scenario.
func playAll(t *testing.T, scenarios []play) {
	t.Helper()
	const sayEvery = 100
	var ran atomic.Int64 // seeds, of all scenarios
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			first, n := seeds(t, scenarios, &sc.Scenario, sc.seeds)
			if n == 0 {
				t.Skip("LEFT OUT: a scenario that takes long (-short)")
			}
			sums, ends := make(map[string]float64), make(map[string]int)
			var worst time.Duration
			twice, done, paced, crowded := 0, 0, 0, 0
			for seed := first; seed < first+uint64(n); seed++ {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					out := simulate(t, seed, sc.Scenario)
					done++
					for name, count := range out.Counts {
						sums[name] += count
					}
					for end, count := range out.Ends {
						ends[end] += count
					}
					paced, crowded = max(paced, out.MostRated), max(crowded, out.MostConcurrent)
					worst, twice = max(worst, out.maxLateness()), twice+out.duplicates()
				})
				if so := ran.Add(1); so%sayEvery == 0 {
					t.Logf("%d seeds so far", so)
				}
			}
			t.Logf("over %d seeds: late by %v at most, %d duplicate executions, %v", done, worst, twice, sums)
			switch {
			case sc.Limited > 0:
				t.Logf("runs with a limit: %v", ends)
			case sc.Rated > 0:
				t.Logf("starts within %s: %d at most", ratedWindow, paced)
			case sc.Concurrent > 0:
				t.Logf("runs of the task at once: %d at most", crowded)
			}
			for _, name := range sc.happens {
				// fewer where some are asked for by name
				if sums[name] == 0 && !t.Failed() && done >= sc.seeds {
					t.Errorf("%s = 0 over %d seeds: what the scenario is for did not happen", name, done)
				}
			}
		})
	}
}

func simulate(t *testing.T, seed uint64, s Scenario) (out Outcome) {
	s.Seed = seed
	var logged bytes.Buffer
	if os.Getenv("CARILLON_SIM_SEED") != "" {
		s.Log = slog.New(slog.NewTextHandler(&logged, nil))
	}
	synctest.Test(t, func(t *testing.T) {
		var err error
		if out, err = Run(t.Context(), s); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if out.Failed() || s.Log != nil {
			var b bytes.Buffer
			if err := out.Report.WriteText(&b); err != nil {
				t.Error(err)
			}
			if s.Recurring+s.Imported > 0 {
				if err := out.Recurring.WriteText(&b); err != nil {
					t.Error(err)
				}
			}
			say := t.Errorf
			if !out.Failed() {
				say = t.Logf // a single seed is run to look at it
			}
			say("seed %d (again: CARILLON_SIM_SEED=%d): settled is %d buckets behind; wrong: %s\n%s\n%s\n%s",
				seed, seed, out.SettledLag, strings.Join(out.Wrong, "; "), &b, strings.Join(out.Traces, "\n"), &logged)
		}
	})
	return out
}
