package chaos

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/nats"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
)

// The acts on power and disks, on a real NATS: a stream that was not synced is as it was at its
// last sync after a power cut. Then its disk is full and frozen for a moment.
func TestActsOnDisks(t *testing.T) {
	if err := cluster.DisksAvailable(); err != nil {
		t.Skipf("SKIPPED, members can have no disks here: %v", err)
	}
	c := cluster.Start(t, cluster.Spec{NATS: 1, Disks: true, NATSSync: time.Hour})
	ctx := t.Context()
	r := &run{
		recorder: recorder{report: &Report{}},
		members: members{
			clusters: []*cluster.Cluster{c}, meter: process.NewMeter(process.CPU),
			sink: &process.Sink{Server: &process.Server{Child: &process.Child{}}}, log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
	}
	request := func(subject, payload string) error {
		n, err := nats.Dial(ctx, c.NATSURLs()[0])
		if err != nil {
			return err
		}
		defer func() { _ = n.Close() }() // what was asked is answered
		return n.Request(subject, payload, nil)
	}
	if err := request("$JS.API.STREAM.CREATE.carillon_runs_0", `{"name":"carillon_runs_0","subjects":["carillon_runs_0.>"],"storage":"file"}`); err != nil {
		t.Fatal(err)
	}
	if err := request("carillon_runs_0.a", "{}"); err != nil {
		t.Fatal(err)
	}
	if err := r.take(ctx, time.Now(), powerCut("nats-1", 0)[:1]); err != nil {
		t.Fatal(err)
	}
	if state := c.Status().NATS[0].State; state != cluster.Stopped {
		t.Errorf("without power nats-1 is %s, want it stopped", state)
	}
	if err := r.take(ctx, time.Now(), chain{{0, ActPowerOn, "nats-1"}}); err != nil {
		t.Fatal(err)
	}
	if before, after := r.report.Events[0].Note, r.report.Events[1].Note; before != "1 messages in the stream" || after == before {
		t.Errorf("before the cut: %s, after it: %s, want the message gone", before, after)
	}

	again := chain{{0, ActFill, "nats-1"}, {0, ActEmpty, "nats-1"}, {0, ActRestart, "nats-1"}, {0, ActStick, "nats-1"}, {0, ActLoosen, "nats-1"}}
	if err := r.take(ctx, time.Now(), again); err != nil {
		t.Fatal(err)
	}
	if err := request("$JS.API.STREAM.NAMES", ""); err != nil {
		t.Errorf("after all nats-1 does not answer: %v", err)
	}
}

func TestFlipBytesSpoilsWhatIsMeant(t *testing.T) {
	dir := t.TempDir()
	text := bytes.Repeat([]byte("block "), 100)
	for _, name := range []string{"1.blk", "meta.inf", "empty.blk"} {
		content := text
		if name == "empty.blk" {
			content = nil
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := flipBytes(dir, func(path string) bool { return strings.HasSuffix(path, ".blk") })
	if n != 1 || err != nil {
		t.Errorf("flipBytes = %d, %v, want 1 file", n, err)
	}
	for name, spoiled := range map[string]bool{"1.blk": true, "meta.inf": false} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(got) != len(text) || bytes.Equal(got, text) == spoiled {
			t.Errorf("%s: %d bytes, spoiled %t, %v, want %d bytes, spoiled %t", name, len(got), !bytes.Equal(got, text), err, len(text), spoiled)
		}
	}
}

// A real NATS starts again whatever was spoiled: blocks, or the descriptions of its streams.
func TestASpoiledServerStartsAgain(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c, err := cluster.Up(ctx, cluster.Options{Dir: filepath.Join(dir, "cluster"), Attached: true}, cluster.Spec{NATS: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	r := &run{
		recorder: recorder{report: &Report{}},
		members: members{
			cfg: Config{Dir: dir}, clusters: []*cluster.Cluster{c}, meter: process.NewMeter(process.CPU),
			sink: &process.Sink{Server: &process.Server{Child: &process.Child{}}}, log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
	}
	const makeStream = "$JS.API.STREAM.CREATE.carillon_runs_0"
	const stream = `{"name":"carillon_runs_0","subjects":["carillon_runs_0.>"],"storage":"file"}`
	n, err := nats.Dial(ctx, c.NATSURLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.Request(makeStream, stream, nil), n.Request("carillon_runs_0.a", "{}", nil), n.Close()); err != nil {
		t.Fatal(err)
	}
	// A server is not healthy as long as a stream of its is lost: as Carillon's nodes do, one makes
	// it again.
	made := make(chan struct{})
	go func() {
		defer close(made)
		for len(r.events()) < 2 && ctx.Err() == nil {
			if n, err := nats.Dial(ctx, c.NATSURLs()[0]); err == nil {
				_ = errors.Join(n.Request(makeStream, stream, nil), n.Close()) // is tried again
			}
			_ = wait.For(ctx, agreePoll)
		}
	}()
	defer func() { stop(); <-made }()
	if err := r.take(ctx, time.Now(), chain{{0, ActCorrupt, "nats-1"}, {0, ActSpoilMeta, "nats-1"}}); err != nil {
		t.Fatal(err)
	}
	if len(r.report.Broken) > 0 {
		t.Errorf("broken = %q, want files that were spoiled", r.report.Broken)
	}
	for _, e := range r.events() {
		t.Log(e)
	}
}

// events returns what was done so far.
func (r *run) events() []Event {
	r.recording.Lock()
	defer r.recording.Unlock()
	return slices.Clone(r.report.Events)
}

// Only what a periodic commit log had not synced is forgiven, and only after a power cut of
// Cassandra.
func TestOnlyAPeriodicCommitLogMayLose(t *testing.T) {
	cut := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := &run{recorder: recorder{report: &Report{Events: []Event{
		{Act: ActPowerOff, Member: "nats-1", Began: cut, Ended: cut},
		{Act: ActPowerOff, Member: "cassandra-1, nats-1", Began: cut, Ended: cut.Add(time.Second)},
	}}}}
	r.cfg.Cluster.CommitLog = cluster.CommitLogPeriodic
	if got, want := (judging{r}).lostArgs(), []string{"--lost", "2026-01-01T11:59:50Z,2026-01-01T12:00:01Z"}; !slices.Equal(got, want) {
		t.Errorf("lostArgs = %q, want %q", got, want)
	}
	r.cfg.Cluster.CommitLog = cluster.CommitLogGroup
	if got := (judging{r}).lostArgs(); got != nil {
		t.Errorf("with the commit log group lostArgs = %q, want none", got)
	}
}
