package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

// member returns what a node says of a member.
func (r *running) member(name string) httpapi.Member {
	r.t.Helper()
	c, err := r.client().Cluster(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(c.Members, func(m httpapi.Member) bool { return m.Name == name })
	if i < 0 {
		r.t.Fatalf("Cluster by %s has no member %s: %+v", c.Node, name, c.Members)
	}
	return c.Members[i]
}

// Every node tells how each member stands, by that one's own word.
func TestMembersTellHowTheyStand(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	before := time.Now()
	a, b := start(t, "a", w.opener("a"), nil).up(), start(t, "b", w.opener("b"), nil).up()
	c := startWith(t, "c", w.opener("c"), nil, func(cfg *config.Config) {
		cfg.Roles = []string{config.Bucketer}
	}).up()
	for _, r := range []*running{a, b, c} {
		for _, name := range []string{"a", "b", "c"} {
			var m httpapi.Member
			await(t, name+" is ready", func() bool { m = r.member(name); return m.Ready })
			if len(m.Checks) < 6 || m.Checks[0] != (httpapi.Check{Name: "store", OK: true}) || m.StartedAt.Before(before.Truncate(time.Second)) || m.StartedAt.After(time.Now()) {
				t.Errorf("%s says of %s: %+v, want its checks and when it began", r.node.cfg.Node.Name, name, m)
			}
			slots := httpapi.Slots{Total: config.Default().Executor.Slots}
			if name == "c" && m.Slots != nil || name != "c" && (m.Slots == nil || *m.Slots != slots) {
				t.Errorf("the slots of %s are %+v, want %+v", name, m.Slots, slots)
			}
		}
	}
	seen, err := a.client().Cluster(t.Context())
	if err != nil || !seen.Store.OK || !seen.Queue.OK || seen.Queue.Waiting == nil || seen.AsOf.IsZero() || seen.ShardsAsOf.IsZero() ||
		len(seen.Store.Hosts) != 1 || seen.Store.Hosts[0] != (httpapi.Host{Name: "198.51.100.1", Up: true}) || len(seen.Queue.Hosts) != 1 {
		t.Errorf("Cluster = %+v, %v; want store and queue well, with a host each", seen, err)
	}
	if status, body := get(t, a.url+"/readyz"); status != 200 {
		t.Errorf("/readyz = %d %s", status, body)
	}
}

// A member that does not answer is not ready, and the others are shown all the same, within seconds.
// So is one that says it is not.
func TestAMemberDoesNotAnswer(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	a, b := start(t, "a", w.opener("a"), nil).up(), start(t, "b", w.opener("b"), nil).up()
	open, silent := silenced(w.opener("c"))
	start(t, "c", open, nil).up()
	for _, name := range []string{"a", "b", "c"} {
		await(t, name+" is ready", func() bool { return a.member(name).Ready })
	}
	w.conn(t, "b").Cut()
	silent.Store(true)
	await(t, "b is seen not to answer", func() bool { return !a.member("b").Ready })
	got := a.member("b")
	if len(got.Checks) != 1 || got.Checks[0].Name != "answer" || got.Checks[0].OK || !strings.Contains(got.Checks[0].Message, "no answer within 1s") || got.Slots != nil {
		t.Errorf("a member that is cut off is %+v, want that it does not answer", got)
	}
	await(t, "c says that its store hangs", func() bool { return !a.member("c").Ready })
	if got := a.member("c"); got.Checks[0].Name != "store" || got.Checks[0].OK || got.Checks[0].Message == "" || !got.Checks[1].OK {
		t.Errorf("a member whose store hangs is %+v, want it to say so", got)
	}
	if !a.member("a").Ready {
		t.Error("the node that is asked is not ready itself")
	}
	// Who is cut off itself cannot know of others, and says that.
	if got := b.member("b"); got.Checks[0].Name == "answer" {
		t.Errorf("a node that is cut off says of itself %+v", got)
	}
	if got := b.member("a"); got.Ready || got.Checks[0].Name != "answer" || !strings.Contains(got.Checks[0].Message, "does not reach NATS") {
		t.Errorf("a node that is cut off says of others %+v, want that it cannot know", got)
	}
	if seen, err := b.client().Cluster(t.Context()); err != nil || seen.Queue.OK || seen.Queue.Message == "" || !seen.Store.OK || len(seen.Shards) != 8 {
		t.Errorf("Cluster by a node that is cut off = %+v, %v; want the queue not well, and all else", seen, err)
	}
	w.conn(t, "b").Heal()
	silent.Store(false)
	for _, name := range []string{"b", "c"} {
		await(t, name+" is ready again", func() bool { return a.member(name).Ready })
	}
}

// hangingCursors is a store that tells no cursors while it is told to be silent.
type hangingCursors struct {
	schema.Store
	silent *atomic.Bool
}

func (s hangingCursors) Cursors(ctx context.Context) ([]schema.Cursor, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Cursors(ctx)
}

// The store of the node that is asked hangs: it answers nevertheless, by what it knew of the shards.
func TestClusterWhileTheStoreHangs(t *testing.T) {
	w := newWorld(t, "a")
	open, silent := silenced(w.opener("a"))
	inner := open.Store
	open.Store = func(ctx context.Context) (schema.Store, error) {
		s, err := inner(ctx)
		return hangingCursors{s, silent}, err
	}
	r := start(t, "a", open, nil).up()
	var before httpapi.Cluster
	await(t, "the shards are known", func() bool {
		var err error
		before, err = r.client().Cluster(t.Context())
		return err == nil && len(before.Shards) == 8 && before.Members[0].Ready
	})
	silent.Store(true)
	var after httpapi.Cluster
	await(t, "the store is not well", func() bool {
		var err error
		after, err = r.client().Cluster(t.Context())
		return err == nil && !after.Store.OK
	})
	if len(after.Shards) != 8 || !after.ShardsAsOf.Before(after.AsOf.Time) || after.Members[0].Ready || after.Store.Message != "no answer within 1s" ||
		len(after.Store.Hosts) != 1 || after.Store.Hosts[0].Up {
		t.Errorf("Cluster while the store hangs = %+v, want the shards as they were, and the store and its host not well", after)
	}
	silent.Store(false)
	await(t, "the store is well again", func() bool {
		c, err := r.client().Cluster(t.Context())
		return err == nil && c.Store.OK && c.Members[0].Ready
	})
}

// Ten open consoles cost one question a second.
func TestManyWhoAskCostOneQuestion(t *testing.T) {
	w := newWorld(t, "a", "b")
	a := start(t, "a", w.opener("a"), nil).up()
	start(t, "b", w.opener("b"), nil).up()
	await(t, "b is ready", func() bool { return a.member("b").Ready })
	listener := w.broker.Connect("listener")
	defer func() { _ = listener.Close() }()
	var mu sync.Mutex
	questions := 0
	cancel, err := listener.SubscribeSignal(schema.TopicMembers, func(body []byte) {
		var q question
		if err := json.Unmarshal(body, &q); err != nil || !isReply(schema.TopicMembers, q.Reply) || q.From != "a" {
			t.Errorf("a question is %q", body)
		}
		mu.Lock()
		defer mu.Unlock()
		questions++
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	began := time.Now()
	var wg sync.WaitGroup
	asked := 0
	for range 10 {
		wg.Go(func() {
			for time.Since(began) < 2*time.Second {
				if _, err := a.node.view.Cluster(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				asked++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	most := int(time.Since(began)/viewAge) + 2
	mu.Lock()
	defer mu.Unlock()
	if questions > most || asked < 100 {
		t.Errorf("%d questions to the members for %d in %v, want at most %d", questions, asked, time.Since(began), most)
	}
}

// What is no question, or no answer to ours, is passed over.
func TestSignalsOfMembersThatMakeNoSense(t *testing.T) {
	w := newWorld(t, "a", "b")
	a := start(t, "a", w.opener("a"), nil).up()
	stranger := w.broker.Connect("stranger")
	defer func() { _ = stranger.Close() }()
	heard := make(chan string, 16)
	for _, topic := range []string{schema.TopicCancel, "members.x"} {
		if _, err := stranger.SubscribeSignal(topic, func([]byte) { heard <- topic }); err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range []string{"", "{", `{"reply":"cancel"}`, `{"reply":"members.x"}`, `{"reply":"members.` + strings.Repeat("a", 26) + `.x"}`} {
		stranger.Signal(schema.TopicMembers, []byte(body))
	}
	cancel, err := stranger.SubscribeSignal(schema.TopicMembers, func(body []byte) {
		var q question
		if err := json.Unmarshal(body, &q); err == nil && isReply(schema.TopicMembers, q.Reply) {
			for _, nonsense := range []string{"", "[]", "{}", `{"node":"a"}`, `{"node":"c"}`} {
				stranger.Signal(q.Reply, []byte(nonsense))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	if got := a.member("b"); got.Ready || got.Checks[0].Name != "answer" {
		t.Errorf("a member that does not run is %+v, want that it does not answer", got)
	}
	if got := a.member("a"); len(got.Checks) < 6 || got.StartedAt.IsZero() {
		t.Errorf("the node that is asked is %+v, want its own word, not a stranger's", got)
	}
	select {
	case topic := <-heard:
		t.Errorf("a signal made the node publish on %s", topic)
	default:
	}
}

// lossyRing is a ring that has lost members.
type lossyRing struct {
	Ring
	lost map[string]time.Time
}

func (r lossyRing) Lost() map[string]time.Time { return r.lost }

// TestLostMembersAreTold: for a day, by name; a ring that knows of none tells none.
func TestLostMembersAreTold(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	v := &clusterView{now: func() time.Time { return now }, ring: lossyRing{lost: map[string]time.Time{
		"c": now.Add(-time.Minute), "b": now.Add(-23 * time.Hour), "old": now.Add(-25 * time.Hour),
	}}}
	if got := v.lost(); len(got) != 2 || got[0].Name != "b" || got[1].Name != "c" || !got[1].Since.Equal(now.Add(-time.Minute)) {
		t.Errorf("lost are %+v, want b and c", got)
	}
	v.ring = struct{ Ring }{}
	if got := v.lost(); got != nil {
		t.Errorf("lost are %+v of a ring that loses nobody", got)
	}
}

// TestWhatAMemberSaysIsOneLine: why a dispatcher is unhealthy may be several errors, a line each.
func TestWhatAMemberSaysIsOneLine(t *testing.T) {
	m := newMembers("a", time.Now(), nil, func(context.Context) []httpapi.Dependency {
		return []httpapi.Dependency{{Name: "dispatcher", Warning: "publish: no answer\nscan: no hosts"}}
	}, nil, slog.New(slog.DiscardHandler))
	if got := m.own(t.Context()).Checks; len(got) != 1 || !got[0].OK || got[0].Message != "publish: no answer scan: no hosts" {
		t.Errorf("it says %+v, want one line", got)
	}
}
