package chaos

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

// The acts on NATS, on three real servers without anything else: two are killed and come back, and
// the one that leads a stream is frozen and thawed.
func TestActsOnServers(t *testing.T) {
	c := cluster.Start(t, cluster.Spec{NATS: 3})
	ctx := t.Context()
	r := &run{
		recorder: recorder{report: &Report{}},
		members: members{
			clusters: []*cluster.Cluster{c}, meter: process.NewMeter(process.CPU),
			sink: &process.Sink{Server: &process.Server{Child: &process.Child{}}}, log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
	}
	n, err := nats.Dial(ctx, c.NATSURLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	stream := `{"name":"carillon_runs_0","subjects":["carillon_runs_0.>"],"storage":"file","num_replicas":3}`
	if err := n.Request("$JS.API.STREAM.CREATE.carillon_runs_0", stream, nil); err != nil {
		t.Fatal(err)
	}
	// A server that is killed before it has the stream is another matter than one that is killed
	// with it.
	var info struct {
		Cluster struct {
			Leader   string
			Replicas []struct{ Current bool }
		}
	}
	held, err := wait.Poll(ctx, 100*time.Millisecond, time.Now().Add(time.Minute), func() (bool, error) {
		err := n.Request("$JS.API.STREAM.INFO.carillon_runs_0", "", &info)
		current := len(info.Cluster.Replicas) == 2
		for _, r := range info.Cluster.Replicas {
			current = current && r.Current
		}
		return current && info.Cluster.Leader != "", err
	})
	if err != nil || !held {
		t.Fatalf("the stream is held by %+v, %v, want three servers", info.Cluster, err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	t0 := time.Now()
	var g errgroup.Group
	for _, chain := range two(ActKill, "nats", 0, 0.2) {
		g.Go(func() error { return r.take(ctx, t0, chain) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.take(ctx, time.Now(), away(ActStop, "nats-1", 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := r.take(ctx, time.Now(), away(ActFreeze, streamLeader, 0, 0.1)); err != nil {
		t.Fatal(err)
	}
	var acts []Act
	for _, e := range r.report.Events {
		acts = append(acts, e.Act)
	}
	want := []Act{ActKill, ActKill, ActStart, ActStart, ActStop, ActStart, ActFreeze, ActThaw}
	if !slices.Equal(acts, want) {
		t.Errorf("acts were %q, want %q", acts, want)
	}
	frozen, thawed := r.report.Events[6], r.report.Events[7]
	if frozen.Note == "" || frozen.Note != thawed.Note {
		t.Errorf("%q was frozen and %q thawed, want one server", frozen.Note, thawed.Note)
	}
	for _, s := range c.Status().NATS {
		if s.State != cluster.Running {
			t.Errorf("%s is %s at the end, want it running", s.Name, s.State)
		}
	}
}
