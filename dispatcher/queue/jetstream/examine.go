package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// ErrNoStream: there is no such stream, or it lacks a consumer. Nodes make both.
var ErrNoStream = errors.New("there is no such stream")

// Examination is what one look at NATS tells. What could not be read is empty.
type Examination struct {
	URL, Server, Version string // of the server that the connection is to
	Cluster              string // the name of its cluster; empty: it is alone
	JetStream            error  // why JetStream does not answer; nil: it does
	Use                  Use
	Streams              []StreamState // one for each lane
}

// Use is what the streams of our account take, and may take. A limit below 0 is none.
type Use struct {
	Storage, Memory           uint64 // bytes
	StorageLimit, MemoryLimit int64  // bytes
}

// StreamState is how the stream of a lane stands.
type StreamState struct {
	Name     string
	Err      error // ErrNoStream, or why it could not be read
	Replicas int
	Wanted   int      // replicas that a node would give it, if there are servers enough
	Leader   string   // the server that leads it; empty: none does, or the server is alone
	Behind   []string // its replicas that are offline, or do not have all of it
	Messages uint64
	Bytes    uint64
	MaxBytes int64 // bytes that it may hold; beyond that publications are refused
	Memory   bool  // it is in memory, not in files
}

// Examiner looks at NATS. It makes and changes nothing.
type Examiner struct{ q *Queue }

// NewExaminer connects to NATS, once. The caller must Close it.
func NewExaminer(cfg Config) (*Examiner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	q := newQueue(cfg.withDefaults())
	if err := q.dial(context.Background()); err != nil {
		q.stop()
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	return &Examiner{q}, nil
}

// Close ends the connections.
func (x *Examiner) Close() error { return x.q.Close() }

// Clocks returns the clocks of the configured servers, as Queue.Clocks.
func (x *Examiner) Clocks() []schema.HostClock {
	if x.q.cfg.Server != nil {
		return nil // it is in this process
	}
	return x.q.Clocks()
}

// Examine reads how NATS and the streams stand.
func (x *Examiner) Examine(ctx context.Context) Examination {
	q := x.q
	e := Examination{
		URL: q.where(q.nc), Server: q.nc.ConnectedServerName(), Version: q.nc.ConnectedServerVersion(), Cluster: q.nc.ConnectedClusterName(),
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	account, err := q.js.AccountInfo(bounded)
	if err != nil {
		e.JetStream = fmt.Errorf("ask for the account: %w", err)
		return e
	}
	e.Use = Use{account.Store, account.Memory, account.Limits.MaxStore, account.Limits.MaxMemory}
	for _, l := range q.streams.lanes {
		e.Streams = append(e.Streams, x.stream(ctx, l))
	}
	return e
}

// stream reads how the stream of a lane stands.
func (x *Examiner) stream(ctx context.Context, l *lane) StreamState {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	st := StreamState{Name: l.stream}
	s, err := x.q.js.Stream(ctx, l.stream)
	if err != nil {
		st.Err = missing(err)
		return st
	}
	info := s.CachedInfo()
	st.Replicas, st.Wanted = info.Config.Replicas, x.q.streams.streamConfig(l, info.Config).Replicas
	st.Messages, st.Bytes, st.MaxBytes = info.State.Msgs, info.State.Bytes, info.Config.MaxBytes
	st.Memory = info.Config.Storage == jetstream.MemoryStorage
	if info.Cluster != nil {
		st.Leader = info.Cluster.Leader
		for _, peer := range info.Cluster.Replicas {
			if peer.Offline || !peer.Current {
				st.Behind = append(st.Behind, peer.Name)
			}
		}
	}
	for _, p := range schema.Priorities {
		if _, err := s.Consumer(ctx, queue.ConsumerName(p)); err != nil {
			st.Err = fmt.Errorf("consumer %s: %w", queue.ConsumerName(p), missing(err))
			break
		}
	}
	return st
}

// missing turns what NATS says of a stream or consumer that is not there into ErrNoStream.
func missing(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
		return fmt.Errorf("%w: %w", ErrNoStream, err)
	}
	return err
}
