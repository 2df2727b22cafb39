package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/wait"
)

// harmKinds are what the other tenant's targets do in H; package sink understands them.
var harmKinds = []string{"fail", "hang", "drip"}

// Two further kinds have to be asked for. What they call answers 404, which is final and no fault
// of the target's: each run fails, where a target that fails is left alone after some calls.
const (
	refuseHarm = "refuse"
	// toldHarm is refuseHarm where the other tenant is told of it by a rule for notifications. The
	// difference is what notifications cost.
	toldHarm = "told"
)

// allHarms are all kinds.
var allHarms = append(harmKinds[:len(harmKinds):len(harmKinds)], refuseHarm, toldHarm)

const (
	// harmBefore is how long before the watched runs those of the other tenant begin, or the span
	// if that is shorter.
	harmBefore = 5 * time.Second
	// harmAttempts bounds the attempts of each run, harmInitial is its first back-off. Both bound
	// how long the interference lasts after its span.
	harmAttempts = 3
	harmInitial  = time.Second
	// harmOver is how long the other tenant must have been idle to count as over: longer than its
	// last back-off.
	harmOver = harmInitial<<(harmAttempts-2) + 3*time.Second
	// harmLimit bounds the wait for that.
	harmLimit = 5 * time.Minute

	harmedTenant, harmingTenant = "watched", "harming"
	// interferenceKind is how the sink of the other tenant's runs is called among processes.
	interferenceKind = "harmed"

	// harmWarmRate runs a second fail for harmWarmSpan before the pair. A fresh Cassandra needs a
	// second for its first reads of rows by id, and everything waits for it.
	harmWarmRate = 50
	harmWarmSpan = 8 * time.Second
)

// An Interference is what protocol H did beside the watched runs. In the half without it Kind is
// the same, and Rate is 0.
type Interference struct {
	Kind    string  `json:"kind"` // "fail", "hang", "drip", "refuse" or "told"
	Rate    int     `json:"rate"` // runs a second of the other tenant
	Timeout float64 `json:"timeout_s"`
	Calls   int64   `json:"calls"` // its target had by the end
	// how long it went on after the last watched run, without what is deferred since its target
	// fails
	WentOn float64 `json:"went_on_s"`
	// p99 with it as a multiple of that without, in the half measured just before
	Ratio float64 `json:"p99_with_alone"`
}

// warmInterference lets some runs fail, and waits until they are over.
func warmInterference(ctx context.Context, b *bench, sys system) error {
	if b.cfg.Warm < 0 {
		return nil
	}
	called, err := b.startSink(ctx, interferenceKind)
	if err != nil {
		return err
	}
	f := &interference{kind: harmKinds[0], url: called.url, rate: harmWarmRate, span: harmWarmSpan, timeout: b.cfg.HarmTimeout}
	t0 := time.Now().Add(b.importLead(f.count(), leadLeast)).Truncate(time.Second).UTC()
	if err = f.load(ctx, b, sys, t0); err == nil {
		err = wait.Until(ctx, t0.Add(f.span))
	}
	if err == nil {
		_, _, err = b.untilInterferenceOver(ctx, sys, called)
	}
	return errors.Join(err, called.end())
}

// interfere measures a pair: runs of one tenant alone, then beside another one's.
func interfere(kind string, round int) step {
	return func(ctx context.Context, b *bench, sys system) error {
		w := b.cfg.stream("H", b.cfg.Rates[0], 0, round)
		w.tenant, w.variant = harmedTenant, kind+" alone"
		alone, err := runAndKeep(ctx, b, sys, w, func(r *Result) { r.Harm = &Interference{Kind: kind} })
		if err != nil {
			return err
		}
		called, err := b.startSink(ctx, interferenceKind)
		if err != nil {
			return err
		}
		if kind == toldHarm {
			forget, err := tell(ctx, b, sys, called.url)
			if err != nil {
				return errors.Join(err, called.end())
			}
			defer forget()
		}
		before := min(harmBefore, b.cfg.Span)
		w.variant = kind + " beside"
		w.beside = &interference{
			kind: kind, url: called.url, rate: b.cfg.HarmRate, before: before, span: before + b.cfg.Span, timeout: b.cfg.HarmTimeout,
		}
		beside, err := b.run(ctx, sys, w)
		if err != nil {
			return errors.Join(err, called.end())
		}
		over := time.Now()
		ended, calls, err := b.untilInterferenceOver(ctx, sys, called)
		if err := errors.Join(err, called.end()); err != nil {
			return err
		}
		beside.Harm = &Interference{
			Kind: kind, Rate: b.cfg.HarmRate, Timeout: b.cfg.HarmTimeout.Seconds(), Calls: calls, WentOn: max(0, ended.Sub(over).Seconds()),
		}
		// what was missed is told beside
		if alone.Lateness != nil && beside.Lateness != nil && alone.Lateness.P99 > 0 {
			beside.Harm.Ratio = beside.Lateness.P99 / alone.Lateness.P99
		}
		return b.keep(beside)
	}
}

// tell has the other tenant told of its failures, by a webhook that takes every message. It returns
// what ends that.
func tell(ctx context.Context, b *bench, sys system, url string) (forget func(), err error) {
	rule := fmt.Sprintf(`{"on":["failed"],"group_wait":"0s","group_interval":"1m","sinks":[{"webhook":{"url":%q}}]}`, url+"/told")
	ask := func(ctx context.Context, method, body string) error {
		a, err := api.Ask(ctx, b.client, api.Request{
			Method: method, URL: sys.intake()[0] + "/v1/notifications/" + toldHarm, Type: "application/json", Body: []byte(body),
			Header: map[string]string{"Carillon-Tenant": harmingTenant}, Timeout: api.RequestTimeout,
		})
		if err == nil && a.Status/100 != 2 {
			err = fmt.Errorf("answered %d: %.300s", a.Status, a.Body)
		}
		if err != nil {
			return fmt.Errorf("%s the rule for notifications: %w", method, err)
		}
		return nil
	}
	if err := ask(ctx, http.MethodPut, rule); err != nil {
		return nil, err
	}
	return func() {
		if err := ask(context.WithoutCancel(ctx), http.MethodDelete, ""); err != nil {
			b.cfg.Log.Warn("the other tenant is still told of its failures", "err", err)
		}
	}, nil
}

// untilInterferenceOver waits until nothing has been under way for harmOver. It returns since when,
// and the number of calls.
func (b *bench) untilInterferenceOver(ctx context.Context, sys system, called callee) (since time.Time, calls int64, err error) {
	s := newScraper(b.client)
	s.watch(sys.nodes())
	was := int64(-1)
	since = time.Now()
	ok, err := wait.Poll(ctx, 5*scrapeEvery, time.Now().Add(harmLimit), func() (_ bool, err error) {
		if calls, _, err = b.sinkSeen(ctx, called.url); err != nil {
			return false, err
		}
		if s.mark(ctx)[metricRunning] > 0 || calls != was {
			was, since = calls, time.Now()
		}
		return time.Since(since) >= harmOver, nil
	})
	if err == nil && !ok {
		b.cfg.Log.Warn("the other tenant's runs are not over, and the wait is")
	}
	return since, calls, err
}

// An interference is another tenant's runs, beside those that are watched; nil is none.
type interference struct {
	kind    string
	url     string
	rate    int
	before  time.Duration // from their first due instant to that of those that are watched
	span    time.Duration
	timeout time.Duration
}

// count returns how many runs they are.
func (f *interference) count() int {
	if f == nil {
		return 0
	}
	return max(1, int(float64(f.rate)*f.span.Seconds()))
}

// load sends them. They begin before t0.
func (f *interference) load(ctx context.Context, b *bench, sys system, t0 time.Time) error {
	if f == nil {
		return nil
	}
	_, err := b.load(ctx, sys, f.jobs(b, t0))
	return err
}

func (f *interference) jobs(b *bench, t0 time.Time) jobs {
	does := f.kind
	if does == refuseHarm || does == toldHarm {
		does = "status-404"
	}
	j := b.jobs(f.count(), t0.Add(-f.before), f.span, httpTarget, f.url+"/"+does)
	j.tenant = harmingTenant
	j.more = fmt.Sprintf(`"timeout":%q,"retry":{"max_attempts":%d,"initial":%q},`, f.timeout, harmAttempts, harmInitial)
	return j
}

// String returns the interference in a line.
func (h *Interference) String() string {
	if h.Rate == 0 {
		return "alone, before the half with " + h.Kind
	}
	return fmt.Sprintf("beside %d/s of a tenant whose target does %s (time-out %g s, %d calls, went on for %.1f s): p99 %s × that alone", h.Rate, h.Kind, h.Timeout,
		h.Calls, h.WentOn, amount(h.Ratio, ""))
}

// writeInterferences writes a table of H: median and worst of all pairs. It writes nothing without
// one.
func writeInterferences(b *strings.Builder, all []*Result) {
	head := "\n| H: beside a tenant whose target does … | rate, its rate, pairs | p99 alone, beside | pairs' ratio: median, worst | missed, early |\n|---|---|---|---|---|\n"
	for _, system := range []string{"carillon", "carillon-dev"} {
		for _, kind := range allHarms {
			var p interferencePairs
			for _, r := range all {
				if r.System == system && r.Harm != nil && r.Harm.Kind == kind {
					p.add(r)
				}
			}
			ratio, ok := figureOf(p.ratios, false)
			if !ok {
				continue
			}
			alone, _ := figureOf(p.alone, false)
			beside, _ := figureOf(p.beside, false)
			b.WriteString(head)
			head = ""
			fmt.Fprintf(b, "| %s (%s) | %.0f/s, %d/s, %d | %s, %s | %s ×, %s × | %d, %d |\n", kind, system, p.rate, p.harmRate, ratio.count,
				amount(alone.value, "ms"), amount(beside.value, "ms"), amount(ratio.value, ""), amount(ratio.worst, ""), p.missed, p.early)
		}
	}
}

// interferencePairs are the pairs of a kind.
type interferencePairs struct {
	alone, beside, ratios []float64
	rate                  float64
	harmRate              int
	missed, early         int
}

func (p *interferencePairs) add(r *Result) {
	p.missed, p.early = p.missed+r.Missed, p.early+r.Early
	if r.Lateness == nil {
		return
	}
	if r.Harm.Rate == 0 {
		p.alone = append(p.alone, r.Lateness.P99)
		return
	}
	p.rate, p.harmRate = r.Rate, r.Harm.Rate
	p.beside, p.ratios = append(p.beside, r.Lateness.P99), append(p.ratios, r.Harm.Ratio)
}
