package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/flame"
)

const (
	// flameLongest bounds a profile; flameHerd is the length of one while all runs are due at one
	// instant.
	flameLongest, flameHerd = 20 * time.Second, 5 * time.Second
	// flamePace is the assumed throughput where no rate is stated, a second. It keeps a profile
	// from lasting longer than the measurement.
	flamePace = 25_000
	// flameGrace is how long a node may take to hand its profile over.
	flameGrace = 15 * time.Second
)

// flameSpan is how long n runs or lines without a rate are profiled.
func flameSpan(n int) time.Duration {
	return min(flameLongest, max(time.Second, time.Duration(n/flamePace)*time.Second))
}

// flamesOf profiles a batch that is measured.
func (b *bench) flamesOf(ctx context.Context, sys system, w batch) (draw func(r *Result)) {
	switch {
	case w.protocol == warming:
		return func(*Result) {}
	case w.span == 0:
		return b.profiling(ctx, sys, flameHerd)
	}
	return b.profiling(ctx, sys, min(w.span, flameLongest))
}

// profiling has every node profile its CPU for span from now on, if flame graphs are wanted. The
// returned func waits for the profiles and writes each, with its flame graph, beside the result r.
// Do not compare figures with and without profiles.
func (b *bench) profiling(ctx context.Context, sys system, span time.Duration) (draw func(r *Result)) {
	if !b.cfg.Flames {
		return func(*Result) {}
	}
	urls := sys.profiles()
	profiles := make([][]byte, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			var err error
			if profiles[i], err = b.cpuProfile(ctx, url, span); err != nil {
				b.cfg.Log.Warn("no profile of a node", "node", url, "err", err)
			}
		})
	}
	return func(r *Result) {
		all.Wait()
		for i, p := range profiles {
			if len(p) == 0 {
				continue
			}
			if err := keepFlame(filepath.Join(b.cfg.Out, fmt.Sprintf("%s-cpu-%d", r.title(), i+1)), r, p); err != nil {
				b.cfg.Log.Warn("no flame graph", "err", err)
			}
		}
		r.Notes = append(r.Notes, fmt.Sprintf("CPU profiles of %s were taken meanwhile", span))
	}
}

// mostProfile bounds a profile, in bytes.
const mostProfile = 16 << 20

// cpuProfile asks the listener of profiles at url for one of that length, in whole seconds.
func (b *members) cpuProfile(ctx context.Context, url string, span time.Duration) ([]byte, error) {
	text, err := api.AskOK(ctx, b.client, api.Request{
		URL: fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, max(1, int(span.Seconds()))), Timeout: span + flameGrace, Most: mostProfile,
	})
	if err != nil {
		return nil, fmt.Errorf("profile CPU: %w", err)
	}
	return text, nil
}

// keepFlame writes base.pprof and base.svg.
func keepFlame(base string, r *Result, cpu []byte) error {
	var svg bytes.Buffer
	if err := flame.Draw(&svg, bytes.NewReader(cpu), "CPU of a Carillon node: "+r.title()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return fmt.Errorf("keep flame graph: %w", err)
	}
	return errors.Join(writeFile(base+".pprof", cpu), writeFile(base+".svg", svg.Bytes()))
}
