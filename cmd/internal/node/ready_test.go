package node

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/cmd/internal/clockcheck"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// silentStore is a store that does not answer while it is told to be silent.
type silentStore struct {
	schema.Store
	silent *atomic.Bool
}

func (s silentStore) Time(ctx context.Context) (time.Time, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	return s.Store.Time(ctx)
}

func (s silentStore) Clocks() []schema.HostClock {
	return []schema.HostClock{{Host: "198.51.100.1", Time: s.Time}}
}

// silenced returns an opener whose store can be made silent.
func silenced(o Opener) (Opener, *atomic.Bool) {
	silent := new(atomic.Bool)
	inner := o.Store
	o.Store = func(ctx context.Context) (schema.Store, error) {
		s, err := inner(ctx)
		return silentStore{s, silent}, err
	}
	return o, silent
}

// /readyz answers while the store hangs, and names the store.
func TestReadyzAnswersWhileTheStoreHangs(t *testing.T) {
	open, silent := silenced(newWorld(t, "a").opener("a"))
	r := start(t, "a", open, nil).up()
	await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == http.StatusOK })
	silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, body, err := fetch(ctx, r.url+"/readyz")
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, "store: context deadline exceeded\nqueue: ok\n") || !strings.Contains(body, "clock: ok\n") {
		t.Errorf("/readyz while the store hangs: %d, %v\n%swant 503, because of the store and nothing else", status, err, body)
	}
	silent.Store(false)
	await(t, "the node is ready again", func() bool { status, _ := get(t, r.url+"/readyz"); return status == http.StatusOK })
}

// The bound of /readyz holds exactly while readings of clocks hang, and each reading has its own
// bound.
func TestReadyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, silent := silenced(newWorld(t, "a").opener("a"))
		cfg := config.Default()
		cfg.Node.Name = "a"
		n := New(cfg, Options{Opener: open})
		stops, err := n.start(t.Context(), "http://127.0.0.1:1")
		defer stops.run(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		compared := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			n.clock.Compare(t.Context())
			compared <- time.Since(began)
		}()
		n.ready(t.Context())
		if took := time.Since(began); took != readyTimeout {
			t.Errorf("ready while the store hangs took %v, want %v", took, readyTimeout)
		}
		if took := <-compared; took != clockcheck.Timeout {
			t.Errorf("a comparison of clocks of which one hangs took %v, want %v", took, clockcheck.Timeout)
		}
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		began = time.Now()
		n.ready(gone)
		if took := time.Since(began); took != time.Second {
			t.Errorf("ready for who leaves after a second took %v, want that", took)
		}
	})
}
