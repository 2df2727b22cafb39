package target

import (
	"container/list"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// Bounds of clients of Kafka.
const (
	// maxKafkaClients bounds the clients that are kept: beyond it the one that was not used for
	// longest goes.
	maxKafkaClients = 64
	// kafkaIdle is how long a client is kept that nobody uses.
	kafkaIdle = time.Minute
	// maxBuffered and maxBufferedBytes bound the records that wait in one client.
	maxBuffered      = 2048
	maxBufferedBytes = 32 << 20
	// maxKafkaAnswer bounds an answer of a broker, bytes: its metadata are the largest.
	maxKafkaAnswer = 8 << 20
	// kafkaRetries bounds how often a client sends a record again by itself, and asks again for
	// metadata: an attempt fails early, and its retry policy decides.
	kafkaRetries = 3
)

// kafkaKey tells clients apart: by tenant, cluster and credentials.
type kafkaKey [sha256.Size]byte

// kafkaClients keeps a client for each kafkaKey.
type kafkaClients struct {
	open func(t *schema.KafkaTarget, v auth.Values, c *kafkaClient) error

	mu     sync.Mutex
	byKey  map[kafkaKey]*kafkaClient
	used   list.List // of *kafkaClient, the latest first
	closed bool
}

// kafkaClient is a client, and what its dials told.
type kafkaClient struct {
	kgo   *kgo.Client
	seeds int

	// Of kafkaClients:
	key   kafkaKey
	at    *list.Element // nil: it takes no further attempts
	users int
	idle  *time.Timer

	mu      sync.Mutex
	last    error            // of a dial
	seed    map[int32]string // hosts of seed brokers that are denied, by the id of the broker
	denied  map[int32]string // hosts of other brokers that are denied
	changed chan struct{}    // closed when a dial is denied
}

// keyOfKafka returns the key of the client of an attempt.
func keyOfKafka(c *Call) (key kafkaKey) {
	t := c.Work.Kafka
	text, _ := json.Marshal([]any{c.Tenant, t.Brokers, t.TLS, t.SASL}) // texts always can
	h := sha256.New()
	_, _ = h.Write(text)
	for _, name := range c.Work.Secrets() {
		for _, value := range c.Values[name][:min(1, len(c.Values[name]))] {
			sum := sha256.Sum256(value)
			_, _ = h.Write(sum[:])
		}
	}
	h.Sum(key[:0])
	return key
}

// take returns the client of an attempt, which must be released. An error is a Fault, or says that
// no client can be made at all.
func (k *kafkaClients) take(c *Call) (*kafkaClient, error) {
	key := keyOfKafka(c)
	k.mu.Lock()
	client := k.byKey[key]
	if client != nil {
		k.used.MoveToFront(client.at)
	} else {
		client = &kafkaClient{key: key, changed: make(chan struct{}), seeds: len(c.Work.Kafka.Brokers)}
		if err := k.open(c.Work.Kafka, c.Values, client); err != nil {
			k.mu.Unlock()
			return nil, err
		}
		if k.byKey == nil {
			k.byKey = make(map[kafkaKey]*kafkaClient)
		}
		k.byKey[key], client.at = client, k.used.PushFront(client)
	}
	client.users++
	if client.idle != nil {
		client.idle.Stop()
		client.idle = nil
	}
	var last *kafkaClient
	if k.used.Len() > maxKafkaClients {
		last = k.drop(k.used.Back().Value.(*kafkaClient))
	}
	k.mu.Unlock()
	last.close()
	return client, nil
}

// release ends the use of a client by an attempt. unsure: the attempt's record may still be in the
// client, so the client must go.
func (k *kafkaClients) release(c *kafkaClient, unsure bool) {
	k.mu.Lock()
	c.users--
	var last *kafkaClient
	switch {
	case unsure || k.closed || c.at == nil:
		last = k.drop(c)
	case c.users == 0:
		var t *time.Timer
		t = time.AfterFunc(kafkaIdle, func() {
			k.mu.Lock()
			var gone *kafkaClient
			if c.idle == t {
				gone = k.drop(c)
			}
			k.mu.Unlock()
			gone.close()
		})
		c.idle = t
	}
	k.mu.Unlock()
	last.close()
}

// drop has a client take no further attempts. It returns the client if it is to be closed now.
func (k *kafkaClients) drop(c *kafkaClient) *kafkaClient {
	if c.at != nil {
		k.used.Remove(c.at)
		delete(k.byKey, c.key)
		c.at = nil
	}
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
	if c.users > 0 {
		return nil
	}
	return c
}

// close closes the clients that nobody uses, and has the others closed when they are released.
func (k *kafkaClients) close() {
	k.mu.Lock()
	k.closed = true
	var all []*kafkaClient
	for e := k.used.Front(); e != nil; {
		c := e.Value.(*kafkaClient)
		e = e.Next()
		all = append(all, k.drop(c))
	}
	k.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}

// close closes the connections of a client that nobody uses. Records that are still in it are not
// sent. c may be nil.
func (c *kafkaClient) close() {
	if c != nil {
		c.kgo.Close()
	}
}

// open makes the client of a cluster. It does no I/O.
func (k *Kafka) open(t *schema.KafkaTarget, v auth.Values, c *kafkaClient) error {
	dial := k.http.transport.DialContext
	if t.TLS != nil {
		config, err := kafkaTLS(t.TLS, v)
		if err != nil {
			return err
		}
		dial = withTLS(dial, config)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(t.Brokers...), kgo.ClientID("carillon"), kgo.Dialer(bounded(dial)), kgo.WithHooks(c), kgo.DisableClientMetrics(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(maxBuffered), kgo.MaxBufferedBytes(maxBufferedBytes), kgo.BrokerMaxReadBytes(maxKafkaAnswer), kgo.FetchMaxBytes(maxKafkaAnswer),
		kgo.RecordRetries(kafkaRetries), kgo.UnknownTopicRetries(1), kgo.RequestRetries(kafkaRetries), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}
	if t.SASL != nil {
		mechanism, err := kafkaSASL(t.SASL, v)
		if err != nil {
			return err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return fmt.Errorf("make a client of Kafka: %w", err)
	}
	c.kgo = client
	return nil
}

// dialing makes connections.
type dialing = func(ctx context.Context, network, address string) (net.Conn, error)

// bounded returns dial, with the bound of connecting.
func bounded(dial dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// withTLS returns dial, with TLS as config says.
func withTLS(dial dialing, config *tls.Config) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial: %w", err)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.ServerName = host
		secure := tls.Client(conn, own)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close() // it was never used
			return nil, err  //nolint:wrapcheck // explain reads it
		}
		return secure, nil
	}
}

// kafkaTLS returns how brokers are spoken to. An error is a Fault.
func kafkaTLS(t *schema.KafkaTLS, v auth.Values) (config *tls.Config, err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CertificateSecret != "" {
		err := auth.Configure(config, &schema.MTLSAuth{CertificateSecret: t.CertificateSecret, KeySecret: t.KeySecret, CASecret: t.CASecret}, v)
		return config, err //nolint:wrapcheck // run reads it
	}
	if t.CASecret != "" {
		config.RootCAs, err = auth.Roots(t.CASecret, v)
	}
	return config, err //nolint:wrapcheck // run reads it
}

// kafkaSASL returns how a client shows who it is. An error is a Fault.
func kafkaSASL(s *schema.KafkaSASL, v auth.Values) (sasl.Mechanism, error) {
	password, err := auth.Text(s.PasswordSecret, v)
	if err != nil {
		return nil, err //nolint:wrapcheck // run reads it
	}
	switch s.Mechanism {
	case schema.SCRAMSHA256:
		return scram.Auth{User: s.Username, Pass: password}.AsSha256Mechanism(), nil
	case schema.SCRAMSHA512:
		return scram.Auth{User: s.Username, Pass: password}.AsSha512Mechanism(), nil
	}
	return plain.Auth{User: s.Username, Pass: password}.AsMechanism(), nil
}

// OnBrokerConnect implements kgo.HookBrokerConnect: it notes what became of a dial.
func (c *kafkaClient) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isSeed := to.NodeID < 0
	if c.last = err; !errors.Is(err, errDenied) {
		if err == nil {
			delete(c.denied, to.NodeID)
			delete(c.seed, to.NodeID)
		}
		return
	}
	if c.seed == nil {
		c.seed, c.denied = make(map[int32]string), make(map[int32]string)
	}
	if isSeed {
		c.seed[to.NodeID] = to.Host
	} else {
		c.denied[to.NodeID] = to.Host
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// deniedNow returns what is closed when a dial is denied from now on.
func (c *kafkaClient) deniedNow() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// deniedFor returns the host of a broker without which a topic cannot be reached, and whose address
// is not allowed: the leader of one of its partitions, or all by which the others are found; "" if
// there is none.
func (c *kafkaClient) deniedFor(topic string) string {
	c.mu.Lock()
	denied, seed := maps.Clone(c.denied), maps.Clone(c.seed)
	c.mu.Unlock()
	for partition := int32(0); len(denied) > 0; partition++ {
		leader, _, _ := c.kgo.PartitionLeader(topic, partition)
		if leader < 0 {
			break // there are no more
		}
		if host := denied[leader]; host != "" {
			return host
		}
	}
	if len(seed) == c.seeds {
		for _, host := range seed {
			return host
		}
	}
	return ""
}

// lastDial returns why the last dial failed; nil if it did not.
func (c *kafkaClient) lastDial() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
