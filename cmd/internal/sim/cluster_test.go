package sim

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestAProcessMayStartWhileItsPredecessorEnds: what is left of a process that was killed takes a second to end here, since an attempt was under
// way. A process that began meanwhile was waited for in its place, and so for ever.
func TestAProcessMayStartWhileItsPredecessorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(1, 1, 1, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		n := c.nodes[0]
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		job := bucketer.Job{Tenant: "default", BodyHash: "1", Work: &schema.Work{
			HTTP: &schema.HTTPTarget{URL: "http://sink/sim/1"}, Timeout: schema.Duration(1000 * time.Hour), // it lasts
		}}
		if _, err := n.bucketer.Submit(context.Background(), job); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := n.executor.Running(); got != 1 {
			t.Fatalf("%d messages in hand, want 1", got)
		}
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			n.Kill()
			close(ended)
		}()
		time.Sleep(100 * time.Millisecond)
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
			if took := time.Since(began); took < 500*time.Millisecond {
				t.Errorf("Kill took %v: nothing was left to end, and the test shows nothing", took)
			}
		case <-time.After(time.Minute):
			t.Error("Kill still waits after a minute, want it to wait for its own process alone")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// lone returns a cluster of one node with four shards, which has run for a minute.
func lone(t *testing.T) (*Cluster, *Node) {
	t.Helper()
	c, err := New(1, 1, 4, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	n := c.nodes[0]
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	return c, n
}

// submit hands jobs to n, due 20 ms apart from first on.
func submit(t *testing.T, n *Node, jobs int, first time.Time) {
	t.Helper()
	batch := make([]bucketer.Job, jobs)
	for i := range batch {
		batch[i] = bucketer.Job{
			Tenant: "default", At: first.Add(time.Duration(i) * 20 * time.Millisecond),
			Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/sim/%d", i+1)}},
		}
	}
	n.bucketer.SubmitBatch(context.Background(), batch, func(i int, _ bucketer.Receipt, err error) {
		if err != nil {
			t.Errorf("SubmitBatch: job %d: %v", i, err)
		}
	})
}
