package clockcheck

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a server on another host. Its clock may be ahead of the true time, and it may answer
// slowly or not at all.
type server struct {
	host         string
	ahead, takes time.Duration
	silent       bool
	asked        int
	then         func() // after it was asked
}

func (v *server) time(ctx context.Context) (time.Time, error) {
	v.asked++
	if v.then != nil {
		v.then()
	}
	if v.silent {
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	time.Sleep(v.takes / 2) // in a bubble
	now := time.Now().Add(v.ahead)
	select {
	case <-time.After(v.takes / 2):
		return now, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// rig is a clock that the test sets, beside servers.
type rig struct {
	*Clock
	step    time.Duration // how far ours was set since the start
	servers []*server
	set     chan struct{}
	told    []bool // what Changed was called with
	logged  strings.Builder
	reg     *prometheus.Registry
}

func newRig(t *testing.T, servers ...*server) *rig {
	t.Helper()
	r := &rig{servers: servers, set: make(chan struct{}, 1), reg: prometheus.NewRegistry()}
	began := time.Now()
	var err error
	r.Clock, err = New(Config{
		Sources: func() (clocks []schema.HostClock) {
			for _, v := range r.servers {
				clocks = append(clocks, schema.HostClock{Host: v.host, Time: v.time})
			}
			return clocks
		},
		HostOf: func(_ context.Context, server schema.HostClock) (string, error) {
			if strings.HasSuffix(server.Host, ".example") {
				return server.Host, errors.New("no such host")
			}
			return strings.TrimPrefix(server.Host, "ours"), nil
		},
		Read:    func() (time.Time, time.Duration) { return time.Now().Add(r.step), time.Since(began) },
		Changed: func(off bool) { r.told = append(r.told, off) },
		Set:     r.set, Logger: slog.New(slog.NewTextHandler(&r.logged, nil)), Registerer: r.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs the clock until the test calls what it returns.
func (r *rig) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
}

// value returns the value of a gauge.
func value(t *testing.T, g prometheus.Gauge) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

func (r *rig) compare(t *testing.T) { r.Compare(t.Context()) }

// wantChanges fails the test unless Changed was called with want, in this order.
func (r *rig) wantChanges(t *testing.T, want ...bool) {
	t.Helper()
	if !slices.Equal(r.told, want) {
		t.Errorf("Changed was called with %v, want %v", r.told, want)
	}
}

func TestClockIsComparedWithTheOthers(t *testing.T) {
	for name, row := range map[string]struct {
		others []*server
		off    bool
	}{
		"all right":                           {[]*server{{host: "a"}, {host: "b"}}, false},
		"a little off":                        {[]*server{{host: "a", ahead: 900 * ms}}, false},
		"behind the others":                   {[]*server{{host: "a", ahead: 3 * s}, {host: "b", ahead: 4 * s}}, true},
		"ahead of the others":                 {[]*server{{host: "a", ahead: -3 * s}, {host: "b", ahead: -4 * s}}, true},
		"one of two is off":                   {[]*server{{host: "a"}, {host: "b", ahead: 9 * s}}, true},
		"one of three is off":                 {[]*server{{host: "a"}, {host: "b", ahead: 9 * s}, {host: "c"}}, false},
		"two of three agree that we are":      {[]*server{{host: "a", ahead: 9 * s}, {host: "b", ahead: 9 * s}, {host: "c"}}, true},
		"our host has no say against another": {[]*server{{host: "ours"}, {host: "ours"}, {host: "a", ahead: 9 * s}}, true},
		"two servers of a host are one vote":  {[]*server{{host: "a"}, {host: "a"}, {host: "b", ahead: 9 * s}}, true},
		"the way counts half":                 {[]*server{{host: "a", takes: 900 * ms, ahead: 500 * ms}}, false},
		"who is slow has no say":              {[]*server{{host: "a", takes: 1100 * ms, ahead: 9 * s}, {host: "b"}, {host: "c"}}, false},
		"a host is as quick as its quickest":  {[]*server{{host: "a", silent: true}, {host: "a", takes: 900 * ms}, {host: "a"}}, false},
		"all are silent: nobody knows":        {[]*server{{host: "a", silent: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, row.others...)
				began := time.Now()
				r.compare(t)
				if got := r.Off(); got != row.off || (r.Err() != nil) != row.off {
					t.Errorf("Off = %t, want %t; %v", got, row.off, r.Err())
				}
				if took := time.Since(began); took > Timeout {
					t.Errorf("Compare took %v, want at most %v: all are asked at once", took, Timeout)
				}
				for _, v := range row.others {
					if v.host == "ours" && v.asked > 0 {
						t.Error("a server of our own host was asked")
					}
				}
			})
		})
	}
}

func TestClockThatNobodyCanCheckIsRightAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &server{host: "ours", ahead: 9 * s}, &server{host: "ours"})
		if r.Unchecked() {
			t.Error("Unchecked before the first comparison, want that nobody knows yet")
		}
		r.compare(t)
		if !r.Unchecked() || r.Off() {
			t.Errorf("Unchecked = %t, Off = %t, want true, false", r.Unchecked(), r.Off())
		}
		if got := value(t, r.metrics.unchecked); got != 1 {
			t.Errorf("carillon_clock_unchecked = %v, want 1", got)
		}
		r.servers = append(r.servers, &server{host: "a"})
		r.compare(t)
		if r.Unchecked() || r.Off() || value(t, r.metrics.unchecked) != 0 {
			t.Errorf("Unchecked = %t, Off = %t once another host is there, want false, false", r.Unchecked(), r.Off())
		}
	})
}

func TestClockTellsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &server{host: "a"}
		r := newRig(t, other)
		stop := r.run(t)
		other.ahead = 5 * s
		time.Sleep(3 * Every)
		other.silent = true // what was known stays
		time.Sleep(3 * Every)
		if !r.Off() {
			t.Error("Off = false since the other is silent, want what was known before")
		}
		other.silent, other.ahead = false, 0
		time.Sleep(3 * Every)
		stop()
		r.wantChanges(t, true, false)
	})
}

func TestClockIsOffUntilItWasCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &server{host: "a", silent: true}
		r := newRig(t, other)
		r.compare(t)
		if !r.Off() || !strings.Contains(r.Err().Error(), "0 of 1 hosts") {
			t.Errorf("Off = %t, %v although no other clock has answered yet", r.Off(), r.Err())
		}
		other.silent = false
		r.compare(t)
		if err := r.Err(); err != nil {
			t.Errorf("Err() after the first comparison = %v, want nil", err)
		}
		r.wantChanges(t, true, false)
	})
}

func TestClockThatIsRightFromTheStartTellsNothing(t *testing.T) {
	for name, others := range map[string][]*server{"right": {{host: "a"}}, "unchecked": {{host: "ours"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, others...)
				stop := r.run(t)
				time.Sleep(3 * Every)
				stop()
				r.wantChanges(t)
				if got := r.logged.String(); strings.Contains(got, "dispatches") {
					t.Errorf("logged of a clock that is right from the start:\n%s", got)
				}
			})
		})
	}
}

// The reason why the node is not ready names the servers that may be on one of the other hosts.
func TestNamesThatCannotBeResolvedAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []*server{{host: "d.example", silent: true}, {host: "c.example", silent: true}}
		r := newRig(t, append(names, &server{host: "ours"}, &server{host: "a"})...)
		r.compare(t)
		r.compare(t)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "2 of 4 hosts") || !strings.Contains(err.Error(), "as hosts of their own: c.example, d.example") {
			t.Errorf("Err() = %v, want 2 of 4 hosts, and the names", err)
		}
		if got := r.logged.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, `names="[c.example d.example]"`) {
			t.Errorf("logged:\n%swant the names, once", got)
		}
	})
}

// A node that halts must announce it: otherwise no node dispatches its shards.
func TestClockThatIsUndecidedFromTheStartIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &server{host: "a"}, &server{host: "b", silent: true})
		stop := r.run(t)
		time.Sleep(3 * Every)
		stop()
		r.wantChanges(t, true)
		const why = "not been compared with enough others yet: no majority: 1 of 2 hosts"
		if got := r.logged.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, why) {
			t.Errorf("logged:\n%swant once that the node dispatches nothing, and that the clock has %s", got, why)
		}
	})
}

// While no host answers, the last verdict holds, and only for HoldFor.
func TestWhatWasKnownStandsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &server{host: "a"}
		r := newRig(t, other)
		stop := r.run(t)
		other.silent = true
		time.Sleep(HoldFor - Every)
		if err := r.Err(); err != nil {
			t.Errorf("Err() of a clock that nobody set while the others are silent = %v, want nil", err)
		}
		time.Sleep(3 * Every)
		if err := r.Err(); !r.Off() || err == nil || !strings.Contains(err.Error(), "too few hosts have answered") {
			t.Errorf("Off() after %v without an answer = %t, %v, want true, and why", HoldFor, r.Off(), err)
		}
		other.silent = false
		time.Sleep(2 * Every)
		if err := r.Err(); err != nil {
			t.Errorf("Err() once the other answers = %v, want nil", err)
		}
		stop()
		r.wantChanges(t, true, false)
	})
}

func TestClockThatWasSetIsOffUntilItIsCompared(t *testing.T) {
	for name, row := range map[string]struct {
		step time.Duration
		set  bool // off right after it was set
		then bool // off after the next comparison
	}{
		"0.4 s ahead": {400 * ms, false, false},
		"0.6 s ahead": {600 * ms, true, false},
		"0.6 s back":  {-600 * ms, true, false},
		"20 s back":   {-20 * s, true, true},
		"a day ahead": {24 * time.Hour, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, &server{host: "a"})
				r.compare(t)
				time.Sleep(time.Second)
				r.step = row.step
				if got := r.Off(); got != row.set {
					t.Errorf("Off() right after it was set = %t, want %t; %v", got, row.set, r.Err())
				}
				r.compare(t)
				if got := r.Off(); got != row.then {
					t.Errorf("Off() after the next comparison = %t, want %t; %v", got, row.then, r.Err())
				}
			})
		})
	}
}

// A clock that was set while too few hosts answer does not count as right until enough answer.
func TestClockThatWasSetStaysOffWhileNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &server{host: "a"}
		r := newRig(t, other)
		r.compare(t)
		other.silent, r.step = true, 600*ms
		for range 3 {
			r.compare(t)
			if err := r.Err(); !r.Off() || err == nil || !strings.Contains(err.Error(), "set by 600ms") {
				t.Errorf("Off() = %t, %v, want true: it was set", r.Off(), err)
			}
			r.wantChanges(t, true)
		}
		other.silent, r.step = false, 0
		r.compare(t)
		r.wantChanges(t, true, false)
	})
}

func TestClockIsComparedAsSoonAsItMayHaveBeenSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &server{host: "a"})
		stop := r.run(t)
		r.step = 600 * ms
		if !r.Off() {
			t.Fatal("Off() = false right after the clock was set")
		}
		r.set <- struct{}{}
		synctest.Wait()
		if err := r.Err(); err != nil {
			t.Errorf("Err() = %v, want a comparison at once, and nil", err)
		}
		stop()
	})
}

// Readings from before a step do not count for the clock after it.
func TestClockThatIsSetWhileItIsComparedIsOffUntilTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &server{host: "a"})
		r.compare(t)
		r.servers[0].takes, r.servers[0].then = 2*ms, func() { r.step = 4 * s }
		r.compare(t)
		if !r.Off() {
			t.Error("Off() = false of a clock that was set by 4 s while it was compared, want true")
		}
		r.compare(t)
		if !r.Off() || len(r.told) != 1 || !r.told[0] {
			t.Errorf("Off() after the next comparison = %t, and Changed was called with %v, want true and once true", r.Off(), r.told)
		}
		r.step, r.servers[0].then = 0, nil
		r.compare(t)
		if err := r.Err(); err != nil {
			t.Errorf("Err() of a clock that was set right = %v, want nil", err)
		}
	})
}

// A comparison that ctx ended does not count.
func TestComparisonThatWasCutShortSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &server{host: "a", ahead: 9 * s})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stopping"))
		r.Compare(ctx)
		if r.latest.Load() != nil {
			t.Error("a comparison whose context had ended was noted")
		}
	})
}
