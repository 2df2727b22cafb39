package homes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// centre is the data centre of another region.
type centre struct {
	mu    sync.Mutex
	cut   bool
	asked []schema.Copies
}

func (c *centre) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
}

func (c *centre) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func (c *centre) Confirm(ctx context.Context, rows schema.Copies) error {
	c.mu.Lock()
	c.asked = append(c.asked, rows)
	cut := c.cut
	c.mu.Unlock()
	if !cut {
		return nil
	}
	<-ctx.Done()
	return errors.Join(schema.ErrUnavailable, ctx.Err())
}

// TestEverywhere: a region that does not answer is asked seldom. Meanwhile who asks is refused at
// once, and told which region it is, and whether anything was written.
func TestEverywhere(t *testing.T) {
	inWorld(t, func(w *world) {
		k, _, stop := w.start("eu", "a")
		defer stop()
		var us centre
		e := k.Everywhere(&us)
		rows := schema.Copies{Leases: []string{"run/x"}}
		if err := errors.Join(e.Ready(), e.Confirm(w.Context(), rows)); err != nil || us.count() != 1 {
			w.Fatalf("us answers: %v, asked %d times; want nil, once", err, us.count())
		}
		us.set(true)
		if err := e.Ready(); err != nil {
			w.Errorf("nobody knows yet: Ready = %v, want nil", err)
		}
		says := func(when string, err error, written bool) {
			w.Helper()
			var missing *schema.NotEverywhereError
			if !errors.As(err, &missing) || !slices.Equal(missing.Regions, []string{"us"}) || missing.Written != written ||
				errors.Is(err, schema.ErrUnknown) != written || errors.Is(err, schema.ErrUnavailable) == written {
				w.Errorf("%s: %v, want a NotEverywhereError of us, written: %t", when, err, written)
			}
		}
		began := time.Now()
		says("it does not answer", e.Confirm(w.Context(), rows), true)
		if took := time.Since(began); took > 5*time.Second {
			w.Errorf("Confirm took %v, want some seconds at most", took)
		}
		before, began := us.count(), time.Now()
		says("it did not answer a moment ago", e.Ready(), false)
		says("it did not answer a moment ago", e.Confirm(w.Context(), rows), true)
		if time.Since(began) != 0 || us.count() != before {
			w.Errorf("refused after %v, and asked %d times more; want at once, and not asked", time.Since(began), us.count()-before)
		}
		time.Sleep(time.Second)
		if err := e.Ready(); err != nil {
			w.Errorf("a second later: Ready = %v, want nil: it is asked again", err)
		}
		first := make(chan error)
		go func() { first <- e.Confirm(w.Context(), rows) }()
		synctest.Wait()
		if says("while one asks", e.Confirm(w.Context(), rows), true); us.count() != before+1 {
			w.Errorf("asked %d times at once, want once", us.count()-before)
		}
		says("it does not answer yet", <-first, true)
		us.set(false)
		time.Sleep(time.Second)
		if err := errors.Join(e.Confirm(w.Context(), rows), e.Ready()); err != nil {
			w.Errorf("it answers again: %v, want nil", err)
		}
		left, cancel := context.WithCancel(w.Context())
		cancel()
		us.set(true)
		_ = e.Confirm(left, rows)
		if err := e.Ready(); err != nil {
			w.Errorf("a caller has left: Ready = %v, want nil: that says nothing of us", err)
		}
	})
}

// TestAClaimIsKnownEverywhere: a run starts once every region knows of its claim. If another one
// does not answer, it starts only if that has given no sign of life for so long that it cannot take
// over.
func TestAClaimIsKnownEverywhere(t *testing.T) {
	inWorld(t, func(w *world) {
		k, link, stop := w.start("eu", "a")
		defer stop()
		_, _, leave := w.start("us", "b")
		var us centre
		e := k.Everywhere(&us)
		time.Sleep(time.Minute)
		if err := errors.Join(e.ReadyToClaim(), e.ConfirmClaim(w.Context(), "run/x")); err != nil || !slices.Equal(us.asked[0].Leases, []string{"run/x"}) {
			w.Fatalf("us answers: %v, asked for %v; want nil, for run/x", err, us.asked)
		}
		us.set(true)
		refused := func(when string) {
			w.Helper()
			if err := e.ConfirmClaim(w.Context(), "run/x"); !errors.Is(err, schema.ErrNotEverywhere) || !errors.Is(e.ReadyToClaim(), schema.ErrNotEverywhere) {
				w.Errorf("%s: %v, %v; want that the run does not start", when, err, e.ReadyToClaim())
			}
		}
		refused("us gives signs of life")
		leave()
		time.Sleep(20 * time.Second)
		refused("us has been silent for 20 s")
		time.Sleep(15 * time.Second)
		if err := errors.Join(e.ConfirmClaim(w.Context(), "run/x"), e.ReadyToClaim()); err != nil {
			w.Errorf("us has been silent for 35 s: %v, want nil", err)
		}
		link.set(true)
		time.Sleep(schema.HomeLeaseLife + 3*time.Second)
		refused("we do not read any more who gives signs of life")
		link.set(false)
		time.Sleep(20 * time.Second)
		refused("we read again since 20 s")
		time.Sleep(20 * time.Second)
		if err := e.ConfirmClaim(w.Context(), "run/x"); err != nil {
			w.Errorf("we read again since 40 s: %v, want nil", err)
		}
	})
}

// TestARegionThatIsOut: a third region that is lost has guarded runs wait and refuses what is to be
// held everywhere for as long as its data centre counts. Once it is out, neither does.
func TestARegionThatIsOut(t *testing.T) {
	inWorld(t, func(w *world) {
		_, _, stopUS := w.start("us", "b", "ap", "eu", "us")
		defer stopUS()
		k, _, stop := w.start("eu", "a", "ap", "eu", "us")
		var all centre
		all.set(true) // that of ap, which has never been alive here
		e := k.Everywhere(&all)
		time.Sleep(time.Hour)
		var missing *schema.NotEverywhereError
		if err := e.ConfirmClaim(w.Context(), "run/x"); !errors.As(err, &missing) || !slices.Equal(missing.Regions, []string{"ap"}) {
			w.Errorf("ap is lost for an hour: ConfirmClaim = %v, want that the run waits for ap", err)
		}
		if err := e.Ready(); !errors.Is(err, schema.ErrNotEverywhere) {
			w.Errorf("ap is lost for an hour: Ready = %v, want ErrNotEverywhere", err)
		}
		all.set(false) // the keyspace has no copies in ap any more
		time.Sleep(time.Second)
		if err := errors.Join(e.Confirm(w.Context(), schema.Copies{}), e.ConfirmClaim(w.Context(), "run/x"), e.Ready()); err != nil {
			w.Errorf("its data centre has no copies any more: %v, want nil, without a restart", err)
		}
		stop()
		k, _, stop = w.start("eu", "a", "eu", "us") // regions.out: [ap]
		defer stop()
		e = k.Everywhere(&all)
		time.Sleep(time.Minute)
		all.set(true)
		if err := e.Confirm(w.Context(), schema.Copies{}); !errors.As(err, &missing) || !slices.Equal(missing.Regions, []string{"us"}) {
			w.Errorf("then us does not answer: %v, want that us alone is named", err)
		}
	})
}
