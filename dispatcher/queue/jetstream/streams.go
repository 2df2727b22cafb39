package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
)

const (
	watchInterval  = time.Second            // between two checks of the streams
	checkPause     = 200 * time.Millisecond // at least, between two checks on request
	upgradePeriod  = time.Minute            // between two attempts to reach the wanted replicas
	wantedReplicas = 3                      // where Config.Replicas is 0
	sequenceJump   = 1_000_000              // a larger jump of a sequence may mean a new stream

	codeReplicasUnsupported = 10074 // the server is in no cluster
	codeNoPeers             = 10005 // fewer servers than replicas
)

// lane is one stream.
type lane struct {
	n      queue.Lane
	stream string

	// handle is what was last learned of the stream, nil before the first time.
	handle atomic.Pointer[handle]
	last   atomic.Uint64 // the highest sequence that was seen

	pullers map[class][]*puller // idle ones; the queue's mutex guards them
}

// handle is one incarnation of a stream.
type handle struct {
	stream      jetstream.Stream
	incarnation string
}

func newLane(n queue.Lane, names queue.Names) *lane {
	return &lane{n: n, stream: names.Stream(n), pullers: make(map[class][]*puller)}
}

// incarnation returns the incarnation that s had when it was asked.
func incarnation(s jetstream.Stream) string {
	return strconv.FormatInt(s.CachedInfo().Created.UnixNano(), 10)
}

// learn records what the server said of the stream, and reports whether it is a new stream.
func (l *lane) learn(s jetstream.Stream) (another bool) {
	now := &handle{s, incarnation(s)}
	old := l.handle.Load()
	if old != nil && old.incarnation == now.incarnation {
		return false
	}
	// Of two concurrent calls either may win. Until the next check, receipts may carry an
	// incarnation that is too old, never one that is too new.
	l.handle.Store(now)
	l.last.Store(0)
	return old != nil
}

// suggestsNewStream reports whether a sequence suggests that the stream was recreated.
func (l *lane) suggestsNewStream(sequence uint64) bool {
	for {
		last := l.last.Load()
		if sequence <= last {
			return last-sequence > sequenceJump
		}
		if l.last.CompareAndSwap(last, sequence) {
			return last != 0 && sequence-last > sequenceJump
		}
	}
}

// streams makes, checks and updates the streams of all lanes and their consumers.
type streams struct {
	*connection
	lanes    []*lane
	health   atomic.Pointer[error] // of the last check; nil pointer = healthy
	checkNow chan struct{}         // asks for a check at once
	making   sync.Mutex            // one at a time makes streams
	pools    knownPools
}

func newStreams(c *connection) *streams {
	ss := &streams{connection: c, checkNow: make(chan struct{}, 1)}
	for n := range c.cfg.Lanes {
		ss.lanes = append(ss.lanes, newLane(queue.Lane(n), c.cfg.Names))
	}
	return ss
}

// lane returns the lane with that number.
func (ss *streams) lane(n queue.Lane) (*lane, error) {
	if n < 0 || int(n) >= len(ss.lanes) {
		return nil, fmt.Errorf("there is no lane %d of %d", n, len(ss.lanes))
	}
	return ss.lanes[n], nil
}

// ensureAll makes the streams and consumers that are missing and brings the others up to date.
// It tries once, each lane for itself, and returns all faults.
func (ss *streams) ensureAll(ctx context.Context) error {
	if _, err := ss.current(); err != nil {
		return err
	}
	ss.making.Lock()
	defer ss.making.Unlock()
	var faults []error
	for _, l := range ss.lanes {
		if err := ss.ensure(ctx, l); err != nil {
			faults = append(faults, fmt.Errorf("stream %s: %w", l.stream, err))
		}
	}
	return errors.Join(faults...)
}

func (ss *streams) ensure(ctx context.Context, l *lane) error {
	s, err := ss.ensureStream(ctx, l)
	if err != nil {
		return err
	}
	for _, of := range ss.classes() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable:       queue.ConsumerOf(of.priority, of.pool),
			Description:   of.String(),
			FilterSubject: ss.cfg.Names.RunOf(l.n, of.priority, of.pool),
			DeliverPolicy: jetstream.DeliverAllPolicy,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       queue.AckWait,
			MaxAckPending: queue.MaxAckPending,
			MaxDeliver:    -1,
		})
		cancel()
		if err != nil {
			return fmt.Errorf("consumer %s: %w", queue.ConsumerOf(of.priority, of.pool), err)
		}
	}
	// Last, so that the consumers exist when there is a handle.
	if l.learn(s) {
		ss.log.Warn("the stream was recreated", "stream", l.stream)
	}
	return nil
}

// ensureStream returns the stream, and makes or updates it if necessary.
func (ss *streams) ensureStream(ctx context.Context, l *lane) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := ss.js.Stream(ctx, l.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		cfg := ss.streamConfig(l, jetstream.StreamConfig{FirstSeq: uint64(time.Now().UnixMicro())}) // #nosec G115 -- after 1970
		s, err = ss.withReplicas(cfg, func(cfg jetstream.StreamConfig) (jetstream.Stream, error) { return ss.js.CreateStream(ctx, cfg) })
		if err == nil {
			ss.metrics.made.Inc()
			ss.log.Info("stream created", "stream", l.stream, "replicas", s.CachedInfo().Config.Replicas)
			return s, nil
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was faster
			s, err = ss.js.Stream(ctx, l.stream)
		}
	}
	if err != nil {
		return nil, err
	}
	is := s.CachedInfo().Config
	want := ss.streamConfig(l, is)
	if same(is, want) {
		return s, nil
	}
	updated, err := ss.withReplicas(want, func(cfg jetstream.StreamConfig) (jetstream.Stream, error) {
		if same(is, cfg) {
			return s, nil
		}
		return ss.js.UpdateStream(ctx, cfg)
	})
	if err != nil {
		return nil, fmt.Errorf("bring up to date: %w", err)
	}
	if updated != s {
		ss.log.Info("stream updated", "stream", l.stream, "replicas", updated.CachedInfo().Config.Replicas)
	}
	return updated, nil
}

// streamConfig returns base with everything that Carillon decides.
func (ss *streams) streamConfig(l *lane, base jetstream.StreamConfig) jetstream.StreamConfig {
	base.Name = l.stream
	base.Description = "runs about to start; made by carillon, safe to delete"
	base.Subjects = []string{ss.cfg.Names.Runs(l.n)}
	base.Retention = jetstream.WorkQueuePolicy
	base.Discard = jetstream.DiscardNew
	base.MaxBytes = ss.cfg.MaxBytes
	base.MaxMsgs = -1
	base.MaxAge = 0
	base.MaxMsgSize = queue.MaxEnvelope + 1024 // and its headers
	base.Duplicates = queue.DuplicateWindow
	base.AllowDirect = false
	if base.Replicas == 0 { // a new one; the storage of another cannot be changed
		base.Storage = jetstream.FileStorage
		if ss.cfg.Memory {
			base.Storage = jetstream.MemoryStorage
		}
	}
	switch {
	case ss.cfg.Replicas > 0:
		base.Replicas = ss.cfg.Replicas
	case ss.nc.ConnectedClusterName() == "":
		base.Replicas = max(base.Replicas, 1)
	default:
		base.Replicas = max(base.Replicas, wantedReplicas)
	}
	return base
}

// same reports whether two configurations agree in everything that Carillon decides.
func same(a, b jetstream.StreamConfig) bool {
	return len(a.Subjects) == 1 && a.Subjects[0] == b.Subjects[0] &&
		a.Description == b.Description && a.Retention == b.Retention && a.Discard == b.Discard &&
		a.MaxBytes == b.MaxBytes && a.MaxMsgs == b.MaxMsgs && a.MaxAge == b.MaxAge && a.MaxMsgSize == b.MaxMsgSize &&
		a.Duplicates == b.Duplicates && a.AllowDirect == b.AllowDirect && a.Replicas == b.Replicas && a.Storage == b.Storage
}

// withReplicas does act with as many replicas as the servers allow, where their number was left
// open.
func (ss *streams) withReplicas(cfg jetstream.StreamConfig, act func(jetstream.StreamConfig) (jetstream.Stream, error)) (jetstream.Stream, error) {
	for {
		s, err := act(cfg)
		var api *jetstream.APIError
		short := errors.As(err, &api) && (api.ErrorCode == codeNoPeers || api.ErrorCode == codeReplicasUnsupported)
		if !short || ss.cfg.Replicas > 0 || cfg.Replicas <= 1 {
			return s, err
		}
		cfg.Replicas--
	}
}

// checkIfGone asks for a check of the streams if err says that something is missing.
func (ss *streams) checkIfGone(err error) {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDoesNotExist) || errors.Is(err, nats.ErrNoResponders) {
		ss.checkSoon()
	}
}

// checkSoon asks watch to check the streams at once. It does not wait.
func (ss *streams) checkSoon() {
	select {
	case ss.checkNow <- struct{}{}:
	default:
	}
}

// watch checks the streams once a second, or when it is asked to, and makes what is missing.
func (ss *streams) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	upgraded := time.Now()
	looked, consumers := upgraded, ss.delivering()
	for {
		asked := false
		select {
		case <-ss.stopping.Done():
			return
		case <-tick.C:
		case <-ss.checkNow:
			asked = true
		}
		now := time.Now()
		whole := asked || now.Sub(upgraded) >= upgradePeriod
		var err error
		if !whole {
			err = ss.observe()
		}
		if err == nil && now.Sub(looked) >= passedEvery {
			looked = now
			consumers = ss.alsoOfPools(consumers)
			err = ss.lookAt(consumers)
		}
		if whole || err != nil && ss.nc.IsConnected() {
			upgraded = now
			err = ss.ensureAll(ss.stopping)
		}
		ss.report(err)
		if !asked {
			continue
		}
		select { // bounds the rate of requested checks
		case <-ss.stopping.Done():
			return
		case <-time.After(checkPause):
		}
	}
}

// observe learns the incarnations of all streams. It fails if one is missing or does not answer.
func (ss *streams) observe() error {
	for _, l := range ss.lanes {
		ctx, cancel := context.WithTimeout(ss.stopping, callTimeout)
		s, err := ss.js.Stream(ctx, l.stream)
		cancel()
		if err != nil {
			return fmt.Errorf("stream %s: %w", l.stream, err)
		}
		if l.learn(s) {
			ss.log.Warn("the stream was recreated", "stream", l.stream)
		}
	}
	return nil
}

// lookAt mends the consumers that have passed messages of their stream. It fails if one is to be
// made anew. What it cannot read it looks at the next time.
func (ss *streams) lookAt(consumers []*delivering) error {
	var anew []error
	for _, d := range consumers {
		mended, err := d.look(ss.stopping, ss.js)
		if mended {
			ss.metrics.mended.Inc()
			ss.log.Warn("a consumer had passed messages without delivering them, as after a loss of power: mended",
				"stream", d.stream, "consumer", d.consumer, "anew", err != nil)
		}
		if errors.Is(err, errPassed) {
			anew = append(anew, err)
		} else if err != nil { // the others may not answer either, and wait long for that
			ss.log.Debug("a consumer cannot be looked at", "err", err)
			ss.checkIfGone(err)
			break
		}
	}
	return errors.Join(anew...)
}

// report keeps the result of a check, and logs it if it differs from the one before.
func (ss *streams) report(err error) {
	if ss.stopping.Err() != nil {
		return
	}
	var was error
	if p := ss.health.Load(); p != nil {
		was = *p
	}
	switch {
	case err == nil:
		ss.health.Store(nil)
		if was != nil {
			ss.log.Info("the streams are healthy again")
		}
	default:
		ss.health.Store(&err)
		if was == nil {
			ss.log.Warn("the streams are unhealthy", "err", err)
		}
	}
}
