package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

func init() {
	contracts = append(contracts, contract{kind: "kafka", output: `^{"topic":"orders","partition":0,"offset":0}$`, open: overKafka})
}

// newKafka returns a Kafka that is closed with the test.
func newKafka(t *testing.T, c HTTPConfig) *Kafka {
	t.Helper()
	k := NewKafka(newHTTP(t, c))
	t.Cleanup(k.Close)
	return k
}

// toTopic returns an attempt that sends {"a":1} to the topic orders.
func toTopic(brokers ...string) Call {
	c := callTo("")
	c.Work = schema.Work{Kafka: &schema.KafkaTarget{Brokers: brokers, Topic: "orders"}}.InForce()
	return c
}

// countedListener counts the connections that it accepts.
type countedListener struct {
	net.Listener
	n *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return conn, err
}

// overKafka makes the rig of records.
func overKafka(t *testing.T, m manner, c HTTPConfig) rig {
	t.Helper()
	r := rig{asked: make(chan string, 100)}
	var conns atomic.Int64
	r.conns = func() int { return int(conns.Load()) }
	listen := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return countedListener{l, &conns}, err
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listen), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", secretText))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cluster.ControlKey(int16(kmsg.Produce), func(q kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r.asked <- string(q.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
		switch m {
		case refuses:
			return refusedBy(q, kerr.MessageTooLarge, "no"), nil, true
		case gossips:
			return refusedBy(q, kerr.TopicAuthorizationFailed, secretText), nil, true
		case floods:
			return refusedBy(q, kerr.PolicyViolation, strings.Repeat("x", 30_000)), nil, true
		case ails:
			return refusedBy(q, kerr.NotEnoughReplicas, "later"), nil, true
		case hangs:
			return nil, nil, true
		}
		return nil, nil, false
	})
	if m == redirects {
		elsewhere(cluster, "169.254.169.254")
	}
	r.target = newKafka(t, c)
	r.call = toTopic(cluster.ListenAddrs()...)
	r.call.Work.Kafka.SASL = &schema.KafkaSASL{Mechanism: schema.SASLPlain, Username: "me", PasswordSecret: "pw"}
	r.call.Values = auth.Values{"pw": {[]byte(secretText)}}
	return r
}

// refusedBy answers a request to produce with an error.
func refusedBy(q kmsg.Request, err *kerr.Error, text string) kmsg.Response {
	in := q.(*kmsg.ProduceRequest)
	out := in.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range in.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = partition.Partition, err.Code, &text
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

// elsewhere has a cluster say that its broker is at another host.
func elsewhere(cluster *kfake.Cluster, host string) {
	cluster.ControlKey(int16(kmsg.Metadata), func(q kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		in := q.(*kmsg.MetadataRequest)
		out := in.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = 7, host, 9092
		out.Brokers, out.ControllerID = append(out.Brokers, b), 7
		name := "orders"
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = &name, [16]byte{1}
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Leader, p.Replicas, p.ISR = 7, []int32{7}, []int32{7}
		t.Partitions = append(t.Partitions, p)
		out.Topics = append(out.Topics, t)
		return out, nil, true
	})
}

// newCluster starts a cluster of two brokers, with the topic orders of one partition.
func newCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(append(options, kfake.NumBrokers(2), kfake.SeedTopics(1, "orders"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// read returns so many records of a topic.
func read(t *testing.T, brokers []string, topic string, n int) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for len(records) < n {
		got := client.PollFetches(deadline(t))
		if err := got.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		records = append(records, got.Records()...)
	}
	return records
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// A record says which run it is of, and never deletes a key.
func TestKafkaSendsWhatAReaderFinds(t *testing.T) {
	cluster := newCluster(t)
	k := newKafka(t, HTTPConfig{})
	c := toTopic(cluster.ListenAddrs()...)
	c.Work.Kafka.Key, c.Work.Kafka.Headers = "order-7", map[string]string{"x-team": "billing"}
	for i, payload := range []string{`{"a":1}`, ""} {
		if c.Payload = nil; payload != "" {
			c.Payload = []byte(payload)
		}
		if res := k.Run(deadline(t), c); res.Outcome != schema.Succeeded || string(res.Output) != fmt.Sprintf(`{"topic":"orders","partition":0,"offset":%d}`, i) {
			t.Fatalf("Run: got %+v %s", res, res.Output)
		}
	}
	all := read(t, cluster.ListenAddrs(), "orders", 2)
	for i, want := range []string{`{"a":1}`, "null"} {
		if r := all[i]; string(r.Value) != want || string(r.Key) != "order-7" {
			t.Errorf("record %d is %q of the key %q, want %q of order-7", i, r.Value, r.Key, want)
		}
	}
	for name, want := range map[string]string{
		"carillon-run-id": c.Run.String(), "carillon-attempt": "3", "idempotency-key": c.Run.String(), "carillon-due-at": "2026-11-21T09:00:00.250Z", "carillon-tenant": "default",
		"content-type": "application/json", "x-team": "billing",
	} {
		if got := headerOf(all[0], name); got != want {
			t.Errorf("the header %s is %q, want %q", name, got, want)
		}
	}
}

// What can be wrong with a cluster. (Of another password TestKafkaAsApacheHasIt tells: this one
// closes the connection then.)
func TestKafkaThatCannotBeReached(t *testing.T) {
	cluster := newCluster(t)
	here := cluster.ListenAddrs()
	nobody, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := nobody.Addr().String()
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	away := newCluster(t)
	elsewhere(away, "10.98.76.54")
	locked, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "me", "another"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locked.Close)
	// What is no request closes the connection, as a broker without TLS does.
	plain, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return // the test has ended
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	for name, c := range map[string]struct {
		call  Call
		final bool
		want  string
	}{
		"nobody listens":           {toTopic(gone), false, "connection refused"},
		"the topic is not there":   {func() Call { c := toTopic(here...); c.Work.Kafka.Topic = "none"; return c }(), true, "the record was refused: UNKNOWN_TOPIC_OR_PARTITION"},
		"another address":          {toTopic(away.ListenAddrs()...), true, "10.98.76.54: address is not allowed"},
		"it speaks no TLS":         {func() Call { c := toTopic(plain.Addr().String()); c.Work.Kafka.TLS = new(schema.KafkaTLS); return c }(), false, ""},
		"no user where one is due": {toTopic(locked.ListenAddrs()...), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.call.Values = auth.Values{"pw": {[]byte(secretText)}}
			ctx, cancel := context.WithTimeoutCause(t.Context(), motoPatience, ErrTimeout)
			defer cancel()
			res := newKafka(t, HTTPConfig{}).Run(ctx, c.call)
			if res.Outcome != schema.Failed || res.Final != c.final || !strings.Contains(res.Error, c.want) || res.Error == "" || strings.Contains(res.Error, secretText) {
				t.Errorf("Run: got %+v, want a failure (final %t) that says %q", res, c.final, c.want)
			}
		})
	}
}

// One broker that may not be dialled harms nobody who needs the other.
func TestKafkaNeedsOnlySomeBrokers(t *testing.T) {
	cluster := newCluster(t)
	brokers := append(cluster.ListenAddrs(), "10.98.76.54:9092", "169.254.169.254:9092")
	for range 5 {
		if res := newKafka(t, HTTPConfig{}).Run(deadline(t), toTopic(brokers...)); res.Outcome != schema.Succeeded {
			t.Fatalf("Run with some brokers that are denied: got %+v", res)
		}
	}
}

// A client belongs to a tenant and to what the tenant shows; what is not used for long goes.
func TestKafkaClientsAreSharedAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHTTP(HTTPConfig{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		if err != nil {
			t.Fatal(err)
		}
		k := NewKafka(h)
		take := func(change func(*Call)) *kafkaClient {
			c := toTopic("127.0.0.1:1")
			c.Work.Kafka.SASL, c.Values = &schema.KafkaSASL{Mechanism: schema.SASLPlain, Username: "me", PasswordSecret: "pw"}, auth.Values{"pw": {[]byte("one-password")}}
			if change != nil {
				change(&c)
			}
			client, err := k.clients.take(&c)
			if err != nil {
				t.Fatal(err)
			}
			return client
		}
		first := take(nil)
		for name, change := range map[string]func(*Call){
			"another topic":   func(c *Call) { c.Work.Kafka.Topic = "others" },
			"another key":     func(c *Call) { c.Work.Kafka.Key = "k" },
			"another payload": func(c *Call) { c.Payload = nil },
		} {
			if other := take(change); other != first {
				t.Errorf("%s has a client of its own, want the same", name)
			} else {
				k.clients.release(other, false)
			}
		}
		for name, change := range map[string]func(*Call){
			"another tenant": func(c *Call) { c.Tenant = "other" },
			"other brokers":  func(c *Call) { c.Work.Kafka.Brokers = []string{"127.0.0.1:2"} },
			"another user":   func(c *Call) { c.Work.Kafka.SASL.Username = "you" },
			"TLS":            func(c *Call) { c.Work.Kafka.TLS = new(schema.KafkaTLS) },
		} {
			other := take(change)
			if other == first {
				t.Errorf("%s shares a client, want another", name)
			}
			k.clients.release(other, false)
		}
		// One whose record may still be sent takes no further attempts.
		second := take(nil)
		k.clients.release(second, true)
		if third := take(nil); third == first {
			t.Error("a client is used again whose record may still be sent")
		} else {
			k.clients.release(third, false)
		}
		k.clients.release(first, false)

		for i := range 2 * maxKafkaClients {
			k.clients.release(take(func(c *Call) { c.Tenant = fmt.Sprint("t", i) }), false)
		}
		count := func() int {
			k.clients.mu.Lock()
			defer k.clients.mu.Unlock()
			return len(k.clients.byKey)
		}
		if n := count(); n != maxKafkaClients {
			t.Errorf("%d clients are kept, want %d", n, maxKafkaClients)
		}
		last := take(func(c *Call) { c.Tenant = "last" })
		<-time.After(2 * kafkaIdle)
		synctest.Wait()
		if n := count(); n != 1 {
			t.Errorf("%d clients are kept that were not used for long, want the one that is used", n)
		}
		k.Close()
		if n := count(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
		k.clients.release(last, false)
		h.Close()
	})
}

// An error that is not the protocol's says no address.
func TestKafkaErrorsNameNothing(t *testing.T) {
	k := newKafka(t, HTTPConfig{})
	c := toTopic("kafka.test:9092")
	for err, want := range map[error]string{
		kgo.ErrMaxBuffered:                        "too many records wait for the cluster",
		errors.New("dial user:s3cret@10.0.0.1"):   "the connection failed",
		fmt.Errorf("x: %w", kerr.MessageTooLarge): "the record was refused: MESSAGE_TOO_LARGE",
		fmt.Errorf("x: %w", errDenied):            "kafka.test: address is not allowed",
		fmt.Errorf("10.0.0.1: %w", net.ErrClosed): "the connection failed",
	} {
		if res := k.failed(t.Context(), &c, new(kafkaClient), err); res.Error != want || res.Outcome != schema.Failed {
			t.Errorf("failed(%v): got %+v, want %q", err, res, want)
		}
	}
}
