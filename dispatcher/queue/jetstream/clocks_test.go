package jetstream_test

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/schema"
)

// askClock asks one clock of this machine, and fails the test if it tells another time.
func askClock(t *testing.T, c schema.HostClock) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	sent := time.Now()
	at, err := c.Time(ctx)
	if err == nil && (at.Before(sent) || at.After(time.Now())) {
		t.Errorf("clock of %q: got %v, want it between %v and now", c.Host, at, sent)
	}
	return err
}

// Each server is asked by itself: also while the others are away, and the others while it is.
func TestClocksOfEachServer(t *testing.T) {
	if testing.Short() {
		t.Skip("LEFT OUT: three NATS servers (-short)")
	}
	c := cluster.Start(t, cluster.Spec{NATS: 3})
	q := connect(t, jetstream.Config{URLs: c.NATSURLs(), Names: uniqueNames()})
	var want []string
	for _, text := range c.NATSURLs() {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, u.Hostname())
	}
	for range 2 {
		var hosts []string
		for _, clock := range q.Clocks() {
			if err := askClock(t, clock); err != nil {
				t.Errorf("clock of %s: %v", clock.Host, err)
			}
			hosts = append(hosts, clock.Host)
		}
		if !slices.Equal(hosts, want) {
			t.Errorf("Clocks: got hosts %v, want %v", hosts, want)
		}
	}
	// in the end nats-1 is alone, and leads nothing
	for _, killed := range []string{"nats-2", "nats-3"} {
		if err := c.Kill(t.Context(), killed); err != nil {
			t.Fatal(err)
		}
	}
	for i, clock := range q.Clocks() {
		if err := askClock(t, clock); (err == nil) != (i == 0) {
			t.Errorf("clock of %s after all but the first were killed: %v", clock.Host, err)
		}
	}
}

// A server in this process has no clock of its own.
func TestClockOfTheServerInThisProcess(t *testing.T) {
	q := connect(t, jetstream.Config{Server: start(t), Names: uniqueNames()})
	clocks := q.Clocks()
	if len(clocks) != 1 || clocks[0].Host != "" {
		t.Fatalf("Clocks = %v, want one without a host", clocks)
	}
	if err := askClock(t, clocks[0]); err != nil {
		t.Error(err)
	}
}

// A server that refuses to tell us the time is not one that is silent: it is no source at all.
func TestServerThatRefusesItsTimeIsNoClock(t *testing.T) {
	user := &server.User{Username: "carillon", Password: "hunter-2", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{"$SYS.>"}},
	}}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{user}, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server takes no connections")
	}
	q := connect(t, jetstream.Config{URLs: []string{s.ClientURL()}, User: user.Username, Password: user.Password, Names: uniqueNames()})
	for _, c := range q.Clocks() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if at, err := c.Time(ctx); err == nil {
			t.Errorf("clock of %s = %v, want an error", c.Host, at)
		}
		cancel()
	}
	if clocks := q.Clocks(); len(clocks) != 0 {
		t.Errorf("Clocks = %v after the server refused, want none", clocks)
	}
}

// The configuration may call a server's host by its name: that stays beside the address once it is
// known.
func TestClockKeepsTheNameOfItsServer(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := connect(t, jetstream.Config{URLs: []string{"nats://localhost:" + u.Port()}, Names: uniqueNames()})
	for _, want := range []string{"localhost", "127.0.0.1"} {
		clocks := q.Clocks()
		if len(clocks) != 1 || clocks[0].Name != "localhost" || clocks[0].Host != want {
			t.Fatalf("Clocks = %v, want one of localhost at %s", clocks, want)
		}
		if err := askClock(t, clocks[0]); err != nil {
			t.Fatal(err)
		}
	}
}
