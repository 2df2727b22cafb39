package ring

import (
	"context"
	"slices"
	"testing"
	"time"
)

// Who is told to rest before it runs, and so has no voice yet, owns nothing from its first moment
// on, until it rests no more.
func TestRestSaidBeforeRunHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		others := c.startAll("a", "b")
		config := c.configure("c")
		config.transport = c.network.listen(config.Bind)
		r, err := New(config)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		if err := r.SuspendDispatch(true); err != nil {
			t.Fatalf("Rest(true) before Run = %v, want nil", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		all := append(others, &node{Ring: r, addr: config.Bind})
		owned := func() (n int) {
			for _, at := range all {
				n += len(at.Snapshot().Owned("c"))
			}
			return n
		}
		c.await("all see all", 30*time.Second, func() bool {
			if n := owned(); n > 0 {
				t.Fatalf("a member that rests from the start owns %d shards", n)
			}
			return allSee(all, "a", "b", "c")
		})
		if err := r.SuspendDispatch(false); err != nil {
			t.Fatalf("Rest(false) = %v", err)
		}
		c.await("it owns shards", 2*time.Second, func() bool { return owned() > 0 })
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

func TestMemberAtRestOwnsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes := c.startAll("a", "b", "c")
		owns := func(of string) func() bool {
			return func() bool {
				for _, n := range nodes {
					if len(n.Snapshot().Owned(of)) == 0 {
						return false
					}
				}
				return true
			}
		}
		ownsNothing := func() bool {
			for _, n := range nodes {
				if len(n.Snapshot().Owned("c")) > 0 {
					return false
				}
			}
			return true
		}
		c.await("every member owns shards", time.Second, owns("c"))
		if err := nodes[2].SuspendDispatch(true); err != nil {
			t.Fatalf("Rest(true): %v", err)
		}
		c.await("nobody gives shards to the member at rest", 2*time.Second, ownsNothing)
		for _, n := range nodes {
			if got := n.Snapshot().Status("c"); got != Live || !sees(n, "a", "b", "c") {
				t.Errorf("Status(c) at %s = %v of %v, want live: it only rests", n.config.Name, got, nameList(n.Snapshot().Members()))
			}
		}
		checkAgree(t, nodes...)
		if err := nodes[2].SuspendDispatch(false); err != nil {
			t.Fatalf("Rest(false): %v", err)
		}
		c.await("it owns shards again", 2*time.Second, owns("c"))
		checkAgree(t, nodes...)
	})
}

// An unhealthy member owns nothing while another is healthy, and what it owned before while none
// is.
func TestUnhealthyMembersOwnNothingWhileOthersAreHealthy(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes := c.startAll("a", "b", "c")
		owners := func() string {
			var all string
			for _, n := range nodes {
				for _, of := range []string{"a", "b", "c"} {
					if len(n.Snapshot().Owned(of)) > 0 {
						all += of
					}
				}
				all += " "
			}
			return all
		}
		report := func(i int, healthy bool, want string) {
			t.Helper()
			if err := nodes[i].ReportHealth(healthy); err != nil {
				t.Fatalf("ReportHealth(%v): %v", healthy, err)
			}
			c.await("owners "+want, 2*time.Second, func() bool { return owners() == want })
			checkAgree(t, nodes...)
		}
		c.await("every member owns shards", time.Second, func() bool { return owners() == "abc abc abc " })
		before := nodes[0].Snapshot().Owned("a")
		report(2, false, "ab ab ab ")
		if m, ok := nodes[0].Snapshot().Member("c"); !ok || !m.Unhealthy || m.Has(RoleDispatcher) {
			t.Errorf("c is %+v, %v at a, want a live member that is unhealthy", m, ok)
		}
		report(1, false, "a a a ")
		report(0, false, "abc abc abc ")
		if got := nodes[1].Snapshot().Owned("a"); !slices.Equal(got, before) {
			t.Errorf("a owns %v while none is healthy, want %v as before", got, before)
		}
		// Who rests, as its clock is off, owns nothing in any case.
		if err := nodes[2].SuspendDispatch(true); err != nil {
			t.Fatal(err)
		}
		c.await("who rests owns nothing", 2*time.Second, func() bool { return owners() == "ab ab ab " })
		if err := nodes[2].SuspendDispatch(false); err != nil {
			t.Fatal(err)
		}
		report(1, true, "b b b ")
		report(0, true, "ab ab ab ")
		report(2, true, "abc abc abc ")
	})
}
