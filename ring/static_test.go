package ring

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// view is what a user of the ring declares; both forms have it.
type view interface {
	Snapshot() *Snapshot
	Changed() <-chan struct{}
	Ready() error
	Refresh(ctx context.Context) error
}

var (
	_ view = (*Ring)(nil)
	_ view = (*Fixed)(nil)
)

func TestStatic(t *testing.T) {
	f, err := Static(dispatchers("a", "b"), 16)
	if err != nil {
		t.Fatalf("Static = %v", err)
	}
	first, changed := f.Snapshot(), f.Changed()
	if first.Version() != 1 || first.MadeAt().IsZero() || len(first.Owned("a"))+len(first.Owned("b")) != 16 {
		t.Errorf("first snapshot: version %d, made at %v, a owns %v, b owns %v", first.Version(), first.MadeAt(), first.Owned("a"), first.Owned("b"))
	}

	if err := f.Set(dispatchers("b", "a"), nil, 16); err != nil || closed(changed) || f.Snapshot() != first {
		t.Errorf("Set with the same members = %v, changed: %t; want nothing new", err, closed(changed))
	}
	if err := f.Set(dispatchers("a", "a"), nil, 16); err == nil || closed(changed) || f.Snapshot() != first {
		t.Errorf("Set with a name twice = %v, changed: %t; want an error and nothing new", err, closed(changed))
	}
	if err := f.Set(dispatchers("b"), map[string]Status{"a": Dead, "b": Left}, 16); err != nil || !closed(changed) {
		t.Errorf("Set with one member less = %v, changed: %t; want a change", err, closed(changed))
	}
	s := f.Snapshot()
	if s.Version() != 2 || s.Status("a") != Dead || s.Status("b") != Live || s.Status("c") != Unknown {
		t.Errorf("version %d, statuses %v %v %v; want 2, dead, live, unknown", s.Version(), s.Status("a"), s.Status("b"), s.Status("c"))
	}
	if len(first.Members()) != 2 || len(first.Owned("b")) == 16 {
		t.Errorf("the first snapshot has changed: %v", nameList(first.Members()))
	}
	if err := f.Ready(); err != nil {
		t.Errorf("Ready() = %v, want nil", err)
	}
	if err := f.Refresh(t.Context()); err != nil {
		t.Errorf("Refresh() = %v, want nil", err)
	}
	if _, err := Static(dispatchers("a"), -1); err == nil {
		t.Error("Static with -1 shards = nil, want an error")
	}
}

// Executors come and go without the shards being shared out anew, and a new life of a dispatcher is
// seen.
func TestSnapshotsShareWhatIsTheSame(t *testing.T) {
	f, err := Static(dispatchers("a", "b"), 16)
	if err != nil {
		t.Fatal(err)
	}
	first := f.Snapshot()
	members := append(dispatchers("b", "a"), Member{Name: "x", Incarnation: 5, Roles: []string{RoleExecutor}})
	members[0].Incarnation = 7
	if err := f.Set(members, nil, 16); err != nil {
		t.Fatal(err)
	}
	s := f.Snapshot()
	if &s.owners[0] != &first.owners[0] {
		t.Error("the shards were shared out again for an executor")
	}
	shard := s.Owned("b")[0]
	if owner, _ := s.Owner(shard); owner.Incarnation != 7 {
		t.Errorf("Owner(%d) has incarnation %d, want b's new one, 7", shard, owner.Incarnation)
	}
	if err := f.Set(members, nil, 32); err != nil || f.Snapshot().Shards() != 32 || len(f.Snapshot().owners) != 32 {
		t.Errorf("Set with 32 shards = %v and shares out %d", err, len(f.Snapshot().owners))
	}
}

func TestGoneAreForgottenInTheEnd(t *testing.T) {
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGossip(valid(), m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxGone + 10 {
		g.markGone(fmt.Sprintf("m%d", i), Dead)
		g.markGone("often", Left)
	}
	_, gone := g.view()
	if len(gone) > maxGone || len(g.order) > maxGone {
		t.Errorf("%d gone members are kept in a queue of %d, want at most %d", len(gone), len(g.order), maxGone)
	}
	if gone["often"] != Left || gone["m0"] != Unknown || gone[fmt.Sprintf("m%d", maxGone+9)] != Dead {
		t.Errorf("statuses: often %v, oldest %v, newest %v; want left, unknown, dead", gone["often"], gone["m0"], gone[fmt.Sprintf("m%d", maxGone+9)])
	}
}

func ExampleStatic() {
	f, err := Static([]Member{{Name: "only", Incarnation: 1, Roles: []string{RoleDispatcher}}}, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	owner, _ := f.Snapshot().Owner(3)
	fmt.Println(owner.Name, f.Snapshot().Owned("only"))
	// Output: only [0 1 2 3]
}

// ExampleRing_Changed shows the loop of somebody who works on the shards it owns.
func ExampleRing_Changed() {
	f, err := Static([]Member{{Name: "me", Incarnation: 1, Roles: []string{RoleDispatcher}}}, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for ctx.Err() == nil {
		changed := f.Changed() // before the snapshot, so that nothing is missed
		owned := f.Snapshot().Owned("me")
		fmt.Println(owned)
		if slices.Contains(owned, 2) {
			stop()
			continue
		}
		if err := f.Set(f.Snapshot().Members(), nil, 3); err != nil { // elsewhere
			fmt.Println(err)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	// Output:
	// [0 1]
	// [0 1 2]
}
