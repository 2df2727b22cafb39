package spine

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/process"
)

// The acts on power and disks, on a real NATS: a stream that was not synced is as it was at its last
// sync after a power cut. Then its disk is full and frozen for a moment.
func TestActsOnDisks(t *testing.T) {
	if err := cluster.DisksAvailable(); err != nil {
		t.Skipf("SKIPPED, members can have no disks here: %v", err)
	}
	c := cluster.Start(t, cluster.Spec{NATS: 1, Disks: true, NATSSync: time.Hour})
	ctx := t.Context()
	r := &run{
		clusters: []*cluster.Cluster{c}, report: &Report{}, meter: process.NewMeter(process.CPU), sink: &process.Sink{Child: &process.Child{}},
		log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	request := func(subject, payload string) error {
		n, err := dialNATS(ctx, c.NATSURLs()[0])
		if err != nil {
			return err
		}
		defer func() { _ = n.close() }() // what was asked is answered
		return n.request(subject, payload, nil)
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
