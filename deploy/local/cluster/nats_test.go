package cluster

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestDamagedNATSIsReplaced: a server that lost its power may find a file of a consumer that holds
// zeros, and then is never ready again. It is told from one that only starts, and one without data
// takes its place.
func TestDamagedNATSIsReplaced(t *testing.T) {
	ctx := t.Context()
	c, err := Up(ctx, Options{Dir: t.TempDir(), Attached: true, Say: func(line string) { t.Log(line) }}, Spec{NATS: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	if names := c.DamagedNATS(ctx); len(names) > 0 {
		t.Errorf("DamagedNATS of a new cluster = %v", names)
	}
	const damaged = "nats-3"
	publish(t, c.NATSURLs()[0], 3, 100)
	consume(t, c.NATSURLs()[0], 50)
	if err := c.Kill(ctx, damaged); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(c.memberDir(member{kindNATS, 3}), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || filepath.Base(filepath.Dir(path)) != "obs" || !strings.Contains(path, streamName) {
			return err
		}
		n++
		return os.WriteFile(filepath.Join(path, "o.dat"), make([]byte, 64), 0o600) // the state of a consumer
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files of consumers were spoiled: %v", n, err)
	}
	started, cancel := context.WithTimeout(ctx, time.Minute)
	found := make(chan struct{})
	go func() { // it is never ready: no need to wait for that as long as for one that may be
		defer close(found)
		_ = poll(started, func() (bool, error) { return slices.Contains(c.DamagedNATS(started), damaged), nil })
		cancel()
	}()
	err = c.StartMember(started, damaged)
	cancel()
	<-found
	if names := c.DamagedNATS(ctx); err == nil || !slices.Equal(names, []string{damaged}) {
		t.Fatalf("StartMember with a file of zeros = %v, DamagedNATS = %v, want an error, and %s", err, names, damaged)
	}
	if err := c.Replace(ctx, damaged); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	if names := c.DamagedNATS(ctx); len(names) > 0 {
		t.Errorf("DamagedNATS after Replace = %v", names)
	}
	if n := stored(t, c.NATSURLs()[2]); n != 100 {
		t.Errorf("the stream holds %d messages, want 100", n)
	}
}

// consume takes n messages of the stream with a durable consumer and acknowledges them.
func consume(t *testing.T, url string, n int) {
	t.Helper()
	js := connect(t, url)
	consumer, err := js.CreateConsumer(t.Context(), streamName, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatalf("CreateConsumer: %v", err)
	}
	for range n {
		m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatalf("Ack: %v", err)
		}
	}
}
