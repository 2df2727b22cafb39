package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/process"
)

// warmChains is how many chains warm a system up, at most.
const warmChains = 200

// chains is protocol W.
func (m *measurement) chains(ctx context.Context, c Chainer) (err error) {
	if m.sink, err = m.cfg.StartSink(ctx, m.cfg.Dir); err != nil {
		return err
	}
	defer func() {
		if m.sink != nil {
			err = errors.Join(err, m.sink.End())
		}
	}()
	work := m.consumers(ctx)
	defer func() { err = errors.Join(err, work.stop()) }()
	asking := &http.Client{Timeout: callTimeout, Transport: &http.Transport{}}
	defer asking.CloseIdleConnections()
	ended := func(ctx context.Context) (int, error) { // steps of all waves, each once
		stats, err := process.AskSink(ctx, asking, m.sink.URL)
		return int(stats.Runs), err
	}
	warm := min(max(m.cfg.Warm/flow.ChainSteps, 1), warmChains)
	if _, err := m.startChains(ctx, c, work, warmWave, warm, 0, ended); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	n := warm * flow.ChainSteps
	if over, err := m.untilCalled(ctx, work, n, ended); err != nil || !over {
		return errors.Join(fmt.Errorf("warm up: not all of %d steps were called within %s", n, m.cfg.Wait), err)
	}
	before, err := m.used()
	if err != nil {
		return err
	}
	m.cfg.Log.Info("starting chains", "chains", m.cfg.N)
	began, err := m.startChains(ctx, c, work, realWave, m.cfg.N, n, ended)
	if err != nil {
		return err
	}
	over, err := m.untilCalled(ctx, work, n+m.cfg.N*flow.ChainSteps, ended)
	if err != nil {
		return err
	}
	after, err := m.used()
	if err != nil {
		return err
	}
	if !over {
		m.result.note("not all steps were called within %s after the last start", m.cfg.Wait)
	}
	m.result.N = m.cfg.N * flow.ChainSteps
	m.result.CPU = perRun(before, after, m.result.N)
	if err := work.wait(ctx, overFor); err != nil {
		return err
	}
	if err := work.stop(); err != nil {
		return err
	}
	sink := m.sink
	m.sink = nil // it is ended here
	if err := sink.End(); err != nil {
		return err
	}
	seen, all, err := journal.ReadSeenFile(sink.Record)
	if err == nil && !all {
		err = errors.New("it has gaps")
	}
	if err != nil {
		return fmt.Errorf("read sink's record: %w", err)
	}
	m.judgeChains(seen, began)
	return nil
}

// startChains starts n chains of a wave, at the rate if there is one and the wave is the real one, and returns when the
// first was asked for. earlier is how many steps of other waves have ended.
func (m *measurement) startChains(ctx context.Context, c Chainer, work *consumers, wave, n, earlier int, ended func(context.Context) (int, error)) (time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // workers that end by themselves would never do what is started
		select {
		case <-work.done:
			cancel(errConsumersEnded)
		case <-ctx.Done():
		}
	}()
	start := func(ctx context.Context, i int) error { return c.StartChain(ctx, wave, i) }
	done := func(ctx context.Context) (int, error) {
		steps, err := ended(ctx)
		return (steps - earlier) / flow.ChainSteps, err
	}
	began := time.Now()
	var err error
	if wave == realWave && m.cfg.Target == Pace {
		m.result.Rate = float64(m.cfg.Rate)
		err = flow.Pace(ctx, began, n, flow.Every(m.cfg.Rate), start)
	} else {
		err = flow.Saturate(ctx, n, m.cfg.Open, done, start)
	}
	if err != nil {
		return began, fmt.Errorf("start chains: %w", errors.Join(err, context.Cause(ctx)))
	}
	return began, nil
}

// untilCalled waits until the sink has seen so many steps, at most Config.Wait, and reports whether it has.
func (m *measurement) untilCalled(ctx context.Context, work *consumers, steps int, ended func(context.Context) (int, error)) (bool, error) {
	for limit := time.Now().Add(m.cfg.Wait); time.Now().Before(limit); {
		seen, err := ended(ctx)
		if err != nil || seen >= steps {
			return err == nil, err
		}
		if err := work.wait(ctx, lookEvery); err != nil {
			return false, err
		}
	}
	return false, nil
}

// judgeChains fills in what a sink saw of the real wave since began.
func (m *measurement) judgeChains(seen []check.Sighting, began time.Time) {
	var wave []check.Sighting
	for i := range seen {
		if seen[i].Ref.Source != source(warmWave) {
			wave = append(wave, seen[i])
		}
	}
	b := flow.NewBoard(m.cfg.N, flow.ChainSteps)
	b.Read(wave, func(s *check.Sighting) (flow.Place, bool) {
		i := s.Ref.Line - 1 // the sink counts from 1
		return flow.Place{Run: i / flow.ChainSteps, Step: i % flow.ChainSteps}, s.Ref.Source == source(realWave)
	})
	gaps, early := b.Gaps()
	r := m.result
	r.Lateness, r.Early, r.Missed, r.Doubled = quantiles(gaps, "sink"), early, b.Missed(), b.Extra
	if b.Unexpected > 0 {
		r.note("%d calls of steps that nobody asked for", b.Unexpected)
	}
	if arrived := len(b.Arrivals()); arrived > 0 {
		r.LastStart = b.Last().Sub(began).Seconds()
		r.RunsPerS = perSecond(arrived, b.Last().Sub(began))
	}
}
