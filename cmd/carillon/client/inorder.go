package client

import (
	"context"
	"fmt"
	"io"
	"sync"

	"carillon.dev/carillon/cmd/carillon/cli"
)

// atOnce bounds how many jobs are put at once. A change of a job waits half a second until nothing
// of what it said before starts any more; changes of several jobs wait together.
const atOnce = 16

// inOrder does n things, at most atOnce at a time, and shows the result of each in their order. One
// that waits begins once all before it have ended. The first error ends it, in that order, and it
// returns once nothing is under way.
func inOrder[T any](ctx context.Context, n int, waits func(i int) bool, do func(ctx context.Context, i int) (T, error), show func(T) error) error {
	type result struct {
		value T
		err   error
	}
	results := make([]chan result, n)
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all.Go(func() {
		var begun sync.WaitGroup
		defer begun.Wait()
		slots := make(chan struct{}, atOnce)
		for i := range n {
			if waits(i) {
				begun.Wait()
			}
			slots <- struct{}{}
			begun.Go(func() {
				defer func() { <-slots }()
				var r result
				if r.err = ctx.Err(); r.err == nil {
					r.value, r.err = do(ctx, i)
				}
				results[i] <- r
			})
		}
	})
	for i := range n {
		r := <-results[i]
		if r.err != nil {
			return r.err
		}
		if err := show(r.value); err != nil {
			return err
		}
	}
	return nil
}

// tally shows on a terminal how many of many things are done, in one line that changes; elsewhere
// it shows nothing.
type tally struct {
	w          io.Writer
	live       bool
	done, from int
}

func newTally(w io.Writer, n int) *tally { return &tally{w: w, live: cli.IsTerminal(w), from: n} }

// count counts one more.
func (t *tally) count() {
	if t.done++; t.live {
		_, _ = fmt.Fprintf(t.w, "\r\x1b[2K%s %d of %d", cli.Bar(float64(t.done)/float64(max(t.from, 1))), t.done, t.from)
	}
}

// clear erases the line.
func (t *tally) clear() {
	if t.live {
		_, _ = fmt.Fprint(t.w, "\r\x1b[2K")
	}
}
