package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/netns"
)

// TestLinksAreCut cuts links between three real NATS servers, each in a network namespace, and
// checks that nothing is left after Close.
func TestLinksAreCut(t *testing.T) {
	if err := NamespacesAvailable(); err != nil {
		t.Skipf("LEFT OUT: %s needs network namespaces: %v", t.Name(), err)
	}
	ctx := t.Context()
	left := netns.New(200) // nobody holds its block, so whoever made it was killed
	if err := left.Make(ctx, []netns.Member{{Name: "x", Byte: 2}}); err != nil {
		t.Fatal(err)
	}
	c, err := Up(ctx, Options{Dir: t.TempDir(), Attached: true, Say: func(line string) { t.Log(line) }}, Spec{NATS: 3, Namespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	shut := func() {
		if closed {
			return
		}
		closed = true
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	defer shut()
	if numbers, err := netns.Leftover(ctx); err != nil || slices.Contains(numbers, 200) {
		t.Errorf("Leftover = %d, %v, want that network 200 was removed", numbers, err)
	}
	for _, url := range c.NATSURLs() {
		if !strings.HasPrefix(url, "nats://10.77.") {
			t.Errorf("a server is at %s, want an address of the network", url)
		}
	}
	if c.Host() != c.plan.network().Host() {
		t.Errorf("Host = %s, want the bridge's %s", c.Host(), c.plan.network().Host())
	}
	dropped := func() int {
		t.Helper()
		n, err := c.Dropped(ctx, "nats-1")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := dropped(); n != 0 {
		t.Errorf("%d packets were dropped before a cut", n)
	}
	if err := c.Cut(ctx, "nats-2", "nats-1"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for dropped() == 0 { // servers of a cluster talk all the time
		select {
		case <-tick.C:
		case <-time.After(15 * time.Second):
			t.Fatal("no packet was dropped within 15 s of a cut")
		}
	}
	if n, err := c.Dropped(ctx, "nats-2"); err != nil || n != 0 {
		t.Errorf("Dropped(nats-2) = %d, %v: only the other direction was cut", n, err)
	}
	if err := c.Heal(ctx, "nats-2", "nats-1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Cut(ctx, "nats-4", "nats-1"); err == nil {
		t.Error("Cut of a member that is not there = nil, want an error")
	}
	shut()
	numbers, err := netns.Leftover(ctx)
	if err != nil || slices.Contains(numbers, int(c.plan.Block)) {
		t.Errorf("after Close: Leftover = %d, %v, want nothing of %d", numbers, err, c.plan.Block)
	}
}

func TestLinksNeedNamespaces(t *testing.T) {
	if _, err := Up(t.Context(), Options{Dir: t.TempDir()}, Spec{NATS: 1, Namespaces: true}); err == nil || !strings.Contains(err.Error(), "attached") {
		t.Errorf("Up of a detached cluster in namespaces = %v, want it refused", err)
	}
	c := &Cluster{dir: os.TempDir(), plan: plan{Spec: Spec{NATS: 2}}}
	if err := c.Cut(t.Context(), "nats-1", "nats-2"); err == nil || !strings.Contains(err.Error(), "no network namespaces") {
		t.Errorf("Cut without namespaces = %v, want it refused", err)
	}
	if n, err := c.Dropped(t.Context(), "nats-1"); n != 0 || err != nil {
		t.Errorf("Dropped without namespaces = %d, %v, want 0", n, err)
	}
}
