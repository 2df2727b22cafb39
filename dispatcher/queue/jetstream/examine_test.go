package jetstream_test

import (
	"errors"
	"testing"

	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
)

// An examiner says which streams are missing, and makes none; once a node has made them it says how
// they stand.
func TestExamine(t *testing.T) {
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	cfg := jetstream.Config{URLs: []string{server.URL()}, Lanes: 2}
	look := func() jetstream.Examination {
		t.Helper()
		x, err := jetstream.NewExaminer(cfg)
		if err != nil {
			t.Fatalf("NewExaminer: %v", err)
		}
		defer func() {
			if err := x.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		clocks := x.Clocks()
		if len(clocks) != 1 {
			t.Fatalf("Clocks: %d, want that of the one server", len(clocks))
		}
		if _, err := clocks[0].Time(t.Context()); err != nil {
			t.Errorf("the server's clock: %v", err)
		}
		return x.Examine(t.Context())
	}
	for range 2 { // the first look has made nothing
		e := look()
		if e.JetStream != nil || e.Server != "embedded" || e.Version == "" || e.Cluster != "" || len(e.Streams) != 2 {
			t.Fatalf("Examine of an empty server = %+v, want JetStream and two lanes", e)
		}
		for _, s := range e.Streams {
			if !errors.Is(s.Err, jetstream.ErrNoStream) {
				t.Errorf("stream %s: %v, want ErrNoStream", s.Name, s.Err)
			}
		}
	}
	q, err := jetstream.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, q, envelope(t, 1))
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	e := look()
	for i, s := range e.Streams {
		if s.Err != nil || s.Replicas != 1 || s.Wanted != 1 || s.MaxBytes != jetstream.DefaultMaxBytes || s.Memory || len(s.Behind) > 0 || s.Messages != uint64(1-i) {
			t.Errorf("stream %d = %+v, want one replica on disk, and %d messages", i, s, 1-i)
		}
	}
	if e.Use.Storage == 0 {
		t.Errorf("use = %+v, want some bytes on disk", e.Use)
	}
}

func TestExamineOfNobody(t *testing.T) {
	if x, err := jetstream.NewExaminer(jetstream.Config{URLs: []string{"nats://127.0.0.1:1"}}); err == nil {
		_ = x.Close()
		t.Error("NewExaminer of a port where nobody listens succeeds")
	}
}
