package jetstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/dispatcher/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = time.Minute
	maxBytes = 4 << 20
)

var names atomic.Int64

// uniqueNames returns a prefix that no other test uses, in this run or another.
func uniqueNames() queue.Names {
	return queue.Names(fmt.Sprintf("t%d_%d", time.Now().UnixNano(), names.Add(1)))
}

// start starts a server for one test.
func start(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// connect connects with small streams, of names that are deleted at the end.
func connect(t *testing.T, cfg jetstream.Config) *jetstream.Queue {
	t.Helper()
	if cfg.Lanes == 0 {
		cfg.Lanes = 2
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = maxBytes
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := jetstream.Connect(ctx, cfg)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return q
}

// dial makes a plain connection: the operator's, and the workers'.
func dial(t *testing.T, cfg jetstream.Config) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	var opts []nats.Option
	if cfg.Server != nil {
		opts = append(opts, nats.InProcessServer(cfg.Server))
	}
	nc, err := nats.Connect(strings.Join(cfg.URLs, ","), opts...)
	if err != nil {
		t.Fatalf("nats.Connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatalf("jetstream.New: %v", err)
	}
	return nc, js
}

// rig makes the suite's rig on the servers of cfg.
func rig(t *testing.T, cfg jetstream.Config) *queuetest.Rig {
	t.Helper()
	cfg.Names = uniqueNames()
	nc, js := dial(t, cfg)
	t.Cleanup(func() {
		for lane := range queue.Lane(2) {
			if err := js.DeleteStream(context.Background(), cfg.Names.Stream(lane)); err != nil {
				t.Errorf("DeleteStream: %v", err)
			}
		}
	})
	q := connect(t, cfg)
	return &queuetest.Rig{
		Queue:    q,
		Other:    connect(t, cfg),
		MaxBytes: maxBytes,
		DeleteStream: func(lane queue.Lane) {
			t.Helper()
			if err := js.DeleteStream(t.Context(), cfg.Names.Stream(lane)); err != nil {
				t.Fatalf("DeleteStream: %v", err)
			}
		},
		Serve: func(subject string, w queuetest.Worker) func() {
			t.Helper()
			sub, err := nc.Subscribe(subject, func(m *nats.Msg) {
				headers := make(map[string]string)
				for name := range m.Header {
					headers[name] = m.Header[name][0]
				}
				reply, replyHeaders := w(headers, m.Data)
				answer := &nats.Msg{Subject: m.Reply, Data: reply, Header: nats.Header{}}
				for name, value := range maps.All(replyHeaders) {
					answer.Header[name] = []string{value}
				}
				if err := nc.PublishMsg(answer); err != nil {
					t.Errorf("answer: %v", err)
				}
			})
			if err != nil {
				t.Fatalf("subscribe: %v", err)
			}
			ended := make(chan struct{})
			sub.SetClosedHandler(func(string) { close(ended) })
			if err := nc.Flush(); err != nil {
				t.Fatalf("flush: %v", err)
			}
			return func() {
				if err := sub.Unsubscribe(); err != nil {
					t.Errorf("unsubscribe: %v", err)
				}
				if err := nc.Flush(); err != nil {
					t.Errorf("flush: %v", err)
				}
				<-ended // the answer under way, too
			}
		},
		Close: func() {
			if err := q.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		},
	}
}

// together runs a case beside others: most of them only wait.
func together(t *testing.T, body func(t *testing.T)) {
	t.Parallel()
	body(t)
}

func TestContractOnEmbeddedServer(t *testing.T) {
	s := start(t)
	queuetest.Exercise(t, func(t *testing.T) *queuetest.Rig { return rig(t, jetstream.Config{Server: s}) }, together)
}

func TestContractOnRealServers(t *testing.T) {
	urls := os.Getenv("CARILLON_TEST_NATS")
	if urls == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CARILLON_TEST_NATS is not set: the contract must run on real servers in CI")
		}
		t.Skip("LEFT OUT: the contract on real NATS servers; set CARILLON_TEST_NATS to their URLs")
	}
	queuetest.Exercise(t, func(t *testing.T) *queuetest.Rig {
		return rig(t, jetstream.Config{URLs: strings.Split(urls, ",")})
	}, together)
}
