package chaos

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

const (
	// watchRate is how many runs a second are read by watchersAtOnce readers, until the judge is
	// done.
	watchRate      = 40
	watchersAtOnce = 4
	// watchMost runs of one import are read in rotation, evenly spread over its lines.
	watchMost = 1000
)

// watching reads the states of a sample of runs.
type watching struct{ *run }

// watched are the runs that are read. One reader has a run, and so sees its states in order.
type watched struct {
	mu   sync.Mutex // guards what follows
	runs [watchersAtOnce][]string
	n    int
}

func (w *watched) add(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[w.n%watchersAtOnce] = append(w.runs[w.n%watchersAtOnce], id)
	w.n++
}

// of is how many runs a reader looks at.
func (w *watched) of(reader int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs[reader])
}

// at returns the run whose turn it is with a reader; "" if it has none.
func (w *watched) at(reader, turn int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := w.runs[reader]
	if len(runs) == 0 {
		return ""
	}
	return runs[turn%len(runs)]
}

func (r *run) statesFile() string { return filepath.Join(r.cfg.Dir, "states.ndjson") }

// add has a sample of an import's runs looked at from now on.
func (r watching) add(source string) error {
	acks, err := journal.ReadFile(r.acksFile(source), journal.ReadAcks)
	if err != nil {
		return err
	}
	every := (len(acks) + watchMost - 1) / watchMost
	for i := range acks {
		if i%every == 0 && acks[i].ID != "" {
			r.watched.add(acks[i].ID)
		}
	}
	return nil
}

// always reads runs until it is stopped, and records each change of a state.
func (r watching) always(ctx context.Context) (stop func() error, err error) {
	f, err := createNew(r.statesFile())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	for reader := range watchersAtOnce {
		g.Go(func() error { return r.one(ctx, f, reader) })
	}
	return func() error {
		cancel()
		return errors.Join(g.Wait(), f.Close())
	}, nil
}

// one is one reader. It reads again in the next round what it could not read.
func (r watching) one(ctx context.Context, out io.Writer, reader int) error {
	states := make(map[string]check.State)
	tick := time.NewTicker(watchersAtOnce * time.Second / watchRate)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		id := r.watched.at(reader, turn)
		if id == "" {
			continue
		}
		run, found, err := r.client.Run(ctx, id)
		if err != nil || !found || states[id] == run.State {
			continue
		}
		states[id] = run.State
		if err := journal.WriteLine(out, check.Watched{Run: id, State: run.State, At: time.Now().UTC()}); err != nil {
			return err
		}
	}
}
