package target

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// TestKafkaAsApacheHasIt sends records to a real broker.
func TestKafkaAsApacheHasIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a broker")
	}
	b := cluster.StartKafka(t)
	makeTopic(t, b.Plain, "orders")
	k := newKafka(t, HTTPConfig{})

	c := toTopic(b.Plain)
	c.Work.Kafka.Key = "order-7"
	for range 2 { // an attempt that is repeated is another record of the same run
		if res := k.Run(deadline(t), c); res.Outcome != schema.Succeeded {
			t.Fatalf("Run: got %+v %s, want a success", res, res.Output)
		}
	}
	c.Work.Kafka.Brokers = []string{b.SASL}
	c.Work.Kafka.SASL, c.Values = &schema.KafkaSASL{Mechanism: schema.SASLPlain, Username: cluster.KafkaUser, PasswordSecret: "pw"}, auth.Values{"pw": {[]byte(cluster.KafkaPassword)}}
	c.Payload = []byte(`{"a":"` + strings.Repeat("x", schema.MaxPayload-len(`{"a":""}`)) + `"}`)
	if res := k.Run(deadline(t), c); res.Outcome != schema.Succeeded || string(res.Output) != `{"topic":"orders","partition":0,"offset":2}` {
		t.Errorf("Run by a user, with the largest payload: got %+v %s, want a success", res, res.Output)
	}
	all := read(t, []string{b.Plain}, "orders", 3)
	for i, r := range all {
		if string(r.Key) != "order-7" || headerOf(r, "carillon-run-id") != c.Run.String() || headerOf(r, "idempotency-key") != c.Run.String() || headerOf(r, "carillon-attempt") != "3" || r.Offset != int64(i) {
			t.Errorf("record %d is %+v", i, r)
		}
	}
	if string(all[0].Value) != `{"a":1}` || len(all[2].Value) != schema.MaxPayload {
		t.Errorf("the records are %s and one of %d bytes", all[0].Value, len(all[2].Value))
	}

	for name, row := range map[string]struct {
		change func(*Call)
		final  bool
		want   string
	}{
		"a topic that is not there": {func(c *Call) { c.Work.Kafka.Topic = "none" }, true, "the record was refused: UNKNOWN_TOPIC_OR_PARTITION"},
		"another password": {func(c *Call) {
			c.Work.Kafka.Brokers, c.Values = []string{b.SASL}, auth.Values{"pw": {[]byte(secretText)}}
		}, true, "the record was refused: SASL_AUTHENTICATION_FAILED"},
		"another address": {func(c *Call) { c.Work.Kafka.Brokers, c.Work.Kafka.SASL = []string{b.Inner}, nil }, true, "10.98.76.54: address is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			other := c
			w := *c.Work.Kafka
			other.Work.Kafka = &w
			row.change(&other)
			res := k.Run(deadline(t), other)
			if res.Outcome != schema.Failed || res.Final != row.final || res.Error != row.want {
				t.Errorf("Run: got %+v, want a failure (final %t) that says %q", res, row.final, row.want)
			}
		})
	}
}

// makeTopic makes a topic of one partition.
func makeTopic(t *testing.T, broker, name string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Topics, q.TimeoutMillis = append(q.Topics, topic), 60_000
	answer, err := q.RequestWith(deadline(t), client)
	if err == nil && len(answer.Topics) == 1 {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("make the topic %s: %v", name, err)
	}
}
