package ring

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Two members on real sockets, encrypted: they meet, and one leaves. Nothing here waits for time to
// pass, only for snapshots; the limit is for a machine that is very busy.
func TestTwoMembersOnLoopback(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	configure := func(name string, seeds ...string) Config {
		return Config{
			Name: name, Bind: "127.0.0.1:0", Seeds: seeds, Key: testKey, Shards: testShards, Roles: []string{RoleDispatcher},
			API: "http://127.0.0.1:18081", Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		}
	}
	start := func(c Config) (*Ring, func()) {
		r, err := New(c)
		if err != nil {
			t.Fatalf("New(%s) = %v", c.Name, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		return r, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run of %s = %v, want nil", c.Name, err)
			}
		}
	}
	await := func(r *Ring, what string, ok func(*Snapshot) bool) *Snapshot {
		t.Helper()
		for {
			changed := r.Changed()
			if s := r.Snapshot(); ok(s) {
				return s
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("%s never had %s: it sees %v", r.config.Name, what, nameList(r.Snapshot().Members()))
			}
		}
	}
	members := func(n int) func(*Snapshot) bool {
		return func(s *Snapshot) bool { return len(s.Members()) == n }
	}

	a, stopA := start(configure("a"))
	defer stopA()
	await(a, "itself", members(1))
	b, stopB := start(configure("b", a.Self().Addr))
	await(b, "two members", members(2))
	s := await(a, "two members", members(2))
	if m, ok := s.Member("b"); !ok || m.API != "http://127.0.0.1:18081" || m.Addr != b.Self().Addr {
		t.Errorf("Member(b) = %+v, %t; want what b tells of itself, %+v", m, ok, b.Self())
	}
	if err := b.Refresh(ctx); err != nil {
		t.Errorf("Refresh() = %v, want nil", err)
	}
	stopB()
	s = await(a, "itself only", members(1))
	if got := s.Status("b"); got != Left {
		t.Errorf("Status(b) = %v, want left", got)
	}
	if got := len(s.Owned("a")); got != testShards {
		t.Errorf("alone a owns %d shards, want %d", got, testShards)
	}
}

func TestRunFailsWhereTheAddressIsTaken(t *testing.T) {
	// not ours
	config := Config{Name: "a", Bind: "192.0.2.1:7946", Roles: []string{RoleDispatcher}, Logger: slog.New(slog.DiscardHandler)}
	r, err := New(config)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	if err := r.Run(t.Context()); err == nil {
		t.Error("Run at an address of another machine = nil, want an error")
	}
}
