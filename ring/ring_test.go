package ring

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"carillon.dev/carillon/schema"
)

func TestJoin(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.start(c.configure("a"))
		if err := a.Ready(); !errors.Is(err, ErrNotReady) {
			t.Errorf("Ready() before the join = %v, want ErrNotReady", err)
		}
		changed := a.Changed()
		nodes := []*node{a, c.start(c.configure("b")), c.start(c.configure("c")), c.start(c.configure("d"))}
		took := c.await("all see all", 5*time.Second, func() bool { return allSee(nodes, "a", "b", "c", "d") })
		t.Logf("four nodes, started at once, agree after %v", took)
		checkAgree(t, nodes...)
		if !closedNow(changed) {
			t.Error("Changed() is open after a change")
		}
		for _, n := range nodes {
			if err := n.Ready(); err != nil {
				t.Errorf("Ready() of %s = %v, want nil", n.config.Name, err)
			}
		}
		s := a.Snapshot()
		if b, ok := s.Member("b"); !ok || b.Addr != addrOf("b") || b.Incarnation == 0 || !b.Has(RoleExecutor) {
			t.Errorf("Member(b) = %+v, %t; want its address, incarnation and roles", b, ok)
		}
		if got := s.Status("b"); got != Live {
			t.Errorf("Status(b) = %v, want live", got)
		}
		if got := value(a.metrics.owned); int(got) != len(s.Owned("a")) {
			t.Errorf("shards_owned = %v, want %d", got, len(s.Owned("a")))
		}
		// Nothing happens: nothing is published.
		changed, version := a.Changed(), s.Version()
		time.Sleep(time.Minute)
		if closedNow(changed) || a.Snapshot().Version() != version {
			t.Errorf("in a quiet minute the version went from %d to %d, want no change", version, a.Snapshot().Version())
		}
	})
}

func TestKilledMemberIsDeadWithinSeconds(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e", "f"}} {
		t.Run(fmt.Sprintf("%d members", len(names)), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				nodes := c.startAll(names...)
				victim, others := nodes[len(nodes)-1], nodes[:len(nodes)-1]
				c.network.isolate(victim.addr)
				took := c.await("the others see it dead", 5*time.Second, func() bool { return allSee(others, names[:len(names)-1]...) })
				t.Logf("dead after %v", took)
				for _, n := range others {
					if got := n.Snapshot().Status(victim.config.Name); got != Dead {
						t.Errorf("Status(%s) at %s = %v, want dead", victim.config.Name, n.config.Name, got)
					}
				}
				checkAgree(t, others...)
			})
		})
	}
}

func TestLeavingMemberIsGoneAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes := c.startAll("a", "b", "c")
		leaver, others := nodes[2], nodes[:2]
		changed := others[0].Changed()
		start := time.Now()
		ended := make(chan struct{})
		go func() { leaver.stop(); close(ended) }()
		took := c.await("the others see it gone", time.Second, func() bool { return allSee(others, "a", "b") })
		t.Logf("gone after %v", took)
		if !closedNow(changed) {
			t.Error("Changed() is open after a leave")
		}
		<-ended
		t.Logf("Run ended after %v", time.Since(start))
		if limit := announceTimeout + leaveTimeout; time.Since(start) > limit {
			t.Errorf("leaving took %v, want at most %v", time.Since(start), limit)
		}
		if s := leaver.Snapshot(); len(s.Members()) != 0 || len(s.Owned("c")) != 0 {
			t.Errorf("after leaving the view has %v and we own %v, want nothing", nameList(s.Members()), s.Owned("c"))
		}
		if err := leaver.Ready(); !errors.Is(err, ErrNotReady) {
			t.Errorf("Ready() after leaving = %v, want ErrNotReady", err)
		}
		if err := leaver.Refresh(t.Context()); !errors.Is(err, ErrNotReady) {
			t.Errorf("Refresh() after leaving = %v, want ErrNotReady", err)
		}
		time.Sleep(time.Minute) // it stays gone, and does not become dead
		for _, n := range others {
			if got := n.Snapshot().Status("c"); got != Left || !sees(n, "a", "b") {
				t.Errorf("Status(c) at %s = %v of %v, want left", n.config.Name, got, nameList(n.Snapshot().Members()))
			}
			if lost := n.Lost(); len(lost) != 0 {
				t.Errorf("%s has lost %v, want nobody: c has left", n.config.Name, lost)
			}
			if l, d := value(n.metrics.left), value(n.metrics.dead); l != 1 || d != 0 {
				t.Errorf("departures at %s: left %v, dead %v; want 1, 0", n.config.Name, l, d)
			}
		}
		checkAgree(t, others...)
	})
}

func TestLongPartitionHeals(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes := c.startAll("a", "b", "c", "d")
		left, right := []*node{nodes[0], nodes[1]}, []*node{nodes[2], nodes[3]}
		isLeft := func(addr string) bool { return addr == addrOf("a") || addr == addrOf("b") }
		c.network.setCut(func(from, to string) bool { return isLeft(from) != isLeft(to) })
		c.await("each side sees itself only", 10*time.Second, func() bool { return allSee(left, "a", "b") && allSee(right, "c", "d") })
		time.Sleep(5 * time.Minute) // the dead are gossiped to for one
		checkAgree(t, left...)
		checkAgree(t, right...)
		if lost := left[0].Lost(); len(lost) != 2 || time.Since(lost["c"]) < 4*time.Minute || time.Since(lost["d"]) > 6*time.Minute {
			t.Errorf("a has lost %v, want c and d, five minutes ago", lost)
		}
		if got := value(nodes[3].metrics.rejoinFailures); got != 0 {
			t.Errorf("rejoin failures of d, which reaches seed c: %v, want 0", got)
		}
		c.network.setCut(nil)
		took := c.await("all see all again", 20*time.Second, func() bool { return allSee(nodes, "a", "b", "c", "d") })
		t.Logf("healed after %v", took)
		checkAgree(t, nodes...)
		if lost := left[0].Lost(); len(lost) != 0 {
			t.Errorf("a has lost %v, want nobody: they are back", lost)
		}
	})
}

func TestLostPacketsKillNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.network.setLoss(0.2)
		nodes := c.startAll("a", "b", "c", "d", "e")
		time.Sleep(3 * time.Minute)
		for _, n := range nodes {
			if dead := value(n.metrics.dead); dead != 0 || !sees(n, "a", "b", "c", "d", "e") {
				t.Errorf("%s sees %v and counted %v dead, want all five alive", n.config.Name, nameList(n.Snapshot().Members()), dead)
			}
		}
		c.network.isolate(nodes[4].addr)
		took := c.await("the dead one is found all the same", 10*time.Second, func() bool { return allSee(nodes[:4], "a", "b", "c", "d") })
		t.Logf("dead after %v", took)
		c.network.setCut(nil)
		c.await("it is back", 20*time.Second, func() bool { return allSee(nodes, "a", "b", "c", "d", "e") })
		nodes[0].stop()
		c.await("the leaver is gone", 10*time.Second, func() bool { return allSee(nodes[1:], "b", "c", "d", "e") })
	})
}

func TestStrangersAreRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
	}{
		{"another key", func(c *Config) { c.Key = otherKey }},
		{"no key", func(c *Config) { c.Key = "" }},
		{"another region", func(c *Config) { c.Region = "elsewhere" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				members := c.startAll("a", "b")
				config := c.configure("d")
				tt.change(&config)
				stranger := c.start(config)
				time.Sleep(time.Minute)
				synctest.Wait()
				if !allSee(members, "a", "b") {
					t.Errorf("a sees %v, want the stranger kept out", nameList(members[0].Snapshot().Members()))
				}
				if !sees(stranger, "d") {
					t.Errorf("the stranger sees %v, want itself only", nameList(stranger.Snapshot().Members()))
				}
				if got := value(stranger.metrics.rejoinFailures); got < 3 {
					t.Errorf("rejoin failures of the stranger: %v, want several", got)
				}
				if err := stranger.Refresh(t.Context()); !errors.Is(err, ErrUnreachable) {
					t.Errorf("Refresh() of the stranger = %v, want ErrUnreachable", err)
				}
			})
		})
	}
}

func TestRestartedMemberHasANewIncarnation(t *testing.T) {
	for _, addr := range []string{addrOf("c"), addrOf("z")} {
		t.Run("at "+addr, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				nodes := c.startAll("a", "b", "c")
				others := nodes[:2]
				before, _ := others[0].Snapshot().Member("c")
				time.Sleep(time.Second)
				// The old one vanishes without a word, its name comes back at once.
				old := c.network.endpoints[addrOf("c")]
				if err := old.Shutdown(); err != nil {
					t.Fatal(err)
				}
				delete(c.nodes, addrOf("c"))
				defer nodes[2].stop()
				config := c.configure("c")
				config.Bind = addr
				c.start(config)
				took := c.await("the others see the new one", 10*time.Second, func() bool {
					return !slices.ContainsFunc(others, func(n *node) bool {
						m, ok := n.Snapshot().Member("c")
						return !ok || m.Incarnation == before.Incarnation || m.Addr != addr
					})
				})
				t.Logf("seen after %v", took)
				c.await("all agree", 10*time.Second, func() bool { return allSee([]*node{others[0], others[1], c.nodes[addr]}, "a", "b", "c") })
				checkAgree(t, others[0], others[1], c.nodes[addr])
			})
		})
	}
}

// A node that slept for a second missed what was said meanwhile, and would hear of it only by the
// next full exchange.
func TestRefreshCatchesUpAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes := c.startAll("a", "b", "c")
		sleeper := nodes[2]
		c.network.isolate(sleeper.addr)
		d := c.configure("d")
		d.Seeds = []string{addrOf("a")} // it knows nobody else at first
		c.start(d)
		c.await("the awake see d", time.Second, func() bool { return allSee(nodes[:2], "a", "b", "c", "d") })
		if !sees(sleeper, "a", "b", "c") {
			t.Fatalf("the sleeper sees %v, want it to have missed d", nameList(sleeper.Snapshot().Members()))
		}
		c.network.setCut(nil)
		start := time.Now()
		if err := sleeper.Refresh(t.Context()); err != nil {
			t.Fatalf("Refresh() = %v", err)
		}
		if !sees(sleeper, "a", "b", "c", "d") || time.Since(start) > 0 {
			t.Errorf("%v after Refresh the sleeper sees %v, want d at once", time.Since(start), nameList(sleeper.Snapshot().Members()))
		}
	})
}

func TestNodeWhoseSeedsAreDownWorksAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		alone := c.start(c.configure("d"))
		time.Sleep(joinTimeout - time.Millisecond)
		synctest.Wait()
		if n := len(alone.Snapshot().Members()); n != 0 || !errors.Is(alone.Ready(), ErrNotReady) {
			t.Errorf("before it gave up: %d members, Ready() = %v; want an empty view and ErrNotReady", n, alone.Ready())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if err := alone.Ready(); err != nil {
			t.Errorf("Ready() after %v = %v, want nil", joinTimeout, err)
		}
		if n := len(alone.Snapshot().Owned("d")); n != testShards {
			t.Errorf("alone it owns %d shards, want %d", n, testShards)
		}
		if err := alone.Refresh(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Refresh() = %v, want ErrUnreachable", err)
		}
		late := c.configure("a")
		late.Seeds = nil // it can only be found
		c.start(late)
		c.await("both meet", 20*time.Second, func() bool { return allSee([]*node{alone, c.nodes[addrOf("a")]}, "a", "d") })
	})
}

func TestFirstNodeIsReadyAtOnce(t *testing.T) {
	for name, seeds := range map[string][]string{"no seeds": nil, "itself": {addrOf("a")}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				config := c.configure("a")
				config.Seeds = seeds
				a := c.start(config)
				synctest.Wait()
				if err := a.Ready(); err != nil || !sees(a, "a") {
					t.Errorf("Ready() = %v and it sees %v, want nil and itself", err, nameList(a.Snapshot().Members()))
				}
				if err := a.Refresh(t.Context()); err != nil {
					t.Errorf("Refresh() = %v, want nil: there is nobody to ask", err)
				}
			})
		})
	}
}

func TestSeedNamesAreLookedUpAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.startAll("a")[0]
		config := c.configure("d")
		config.Seeds = []string{"ring.internal"} // no port: the one of our own gossip
		var found atomic.Pointer[[]netip.Addr]   // nil: the name is not known
		config.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "ring.internal" {
				t.Errorf("looked up %q, want ring.internal", host)
			}
			if addrs := found.Load(); addrs != nil {
				return *addrs, nil
			}
			return nil, errors.New("no such host")
		}
		d := c.start(config)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if !sees(d, "d") {
			t.Fatalf("d sees %v, want itself only", nameList(d.Snapshot().Members()))
		}
		if got := value(d.metrics.rejoinFailures); got < 2 {
			t.Errorf("rejoin failures: %v, want several", got)
		}
		found.Store(&[]netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.4")})
		c.await("both meet", 20*time.Second, func() bool { return allSee([]*node{a, d}, "a", "d") })
	})
}

func TestSetShards(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.startAll("a")[0]
		changed := a.Changed()
		if err := a.SetShards(128); err != nil {
			t.Fatalf("SetShards(128) = %v", err)
		}
		if !closedNow(changed) || len(a.Snapshot().Owned("a")) != 128 {
			t.Errorf("after SetShards(128) a owns %d, changed: %t", len(a.Snapshot().Owned("a")), closedNow(changed))
		}
		changed = a.Changed()
		if err := a.SetShards(128); err != nil || closedNow(changed) {
			t.Errorf("SetShards(128) again = %v, changed: %t; want nothing to change", err, closedNow(changed))
		}
		if err := a.SetShards(schema.MaxShards + 1); err == nil {
			t.Error("SetShards(4097) = nil, want an error")
		}
	})
}

// Any program with the key can join; one that is not ours must not own a shard.
func TestMemberWithUnreadableMetadataIsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		nodes := c.startAll("a", "b")
		config := c.configure("x")
		config.transport = c.network.listen(config.Bind)
		g, err := newGossip(Config{Name: "x", Logger: config.Logger}, nodes[0].metrics)
		if err != nil {
			t.Fatal(err)
		}
		g.meta = []byte(`{"i":0}`)
		mc, err := config.memberlistConfig(g)
		if err != nil {
			t.Fatal(err)
		}
		list, err := memberlist.Create(mc)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := list.Shutdown(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := list.Join([]string{addrOf("a")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !allSee(nodes, "a", "b") {
			t.Errorf("a sees %v, want the stranger left out", nameList(nodes[0].Snapshot().Members()))
		}
		if got := value(nodes[1].metrics.refused); got == 0 {
			t.Error("members_refused_total = 0, want it counted")
		}
	})
}

func TestRunOnlyOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a := c.startAll("a")[0]
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("second Run = %v, want an error", err)
		}
	})
}
