package target

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// Kafka is the Target of records for topics of Apache Kafka.
//
// An attempt is one record, which succeeds once all in-sync replicas of its partition have it. The
// producer is idempotent: what the client sends again by itself is there once. An attempt that is
// repeated is another record, with the same header carillon-run-id.
//
// The attempts of a tenant to one cluster with the same credentials share a client, and with it
// connections. Each broker is dialled through the guard of HTTP tasks, whoever names its address:
// the task, or the cluster in its metadata.
//
// A record whose attempt has ended before it was acknowledged is not sent later: its client takes
// no further records, and is closed when the last attempt that uses it has ended.
type Kafka struct {
	http    *HTTP
	clients kafkaClients
}

// NewKafka returns a Kafka that dials as h does. It has no connections yet.
func NewKafka(h *HTTP) *Kafka {
	k := &Kafka{http: h}
	k.clients.open = k.open
	return k
}

// Close closes the clients that no attempt uses, and lets attempts close the others.
func (k *Kafka) Close() { k.clients.close() }

// Run implements Target. What the brokers refuse for good is final, a topic that is not there and
// an address that is not allowed too. The rest is tried again.
func (k *Kafka) Run(ctx context.Context, c Call) Result {
	t := c.Work.Kafka
	if t == nil {
		return Result{Outcome: schema.Failed, Error: "not a record for Kafka", Final: true}
	}
	hide := auth.NewRedactor(c.Values)
	res := k.run(ctx, &c)
	res.Error = hide.Text(res.Error)
	return res
}

func (k *Kafka) run(ctx context.Context, c *Call) Result {
	client, err := k.clients.take(c)
	var fault *auth.Fault
	switch {
	case errors.As(err, &fault):
		return Result{Outcome: schema.Failed, Error: "not called: " + fault.Error(), Uncalled: true}
	case err != nil:
		return Result{Outcome: schema.Failed, Error: "not called: the cluster cannot be called as it is stated", Uncalled: true, Final: true}
	}
	answered := false
	defer func() { k.clients.release(client, !answered) }()
	type ack struct {
		record *kgo.Record
		err    error
	}
	acks := make(chan ack, 1)
	denied := client.deniedNow()
	client.kgo.TryProduce(ctx, recordOf(c), func(r *kgo.Record, err error) { acks <- ack{r, err} })
	for {
		select {
		case a := <-acks:
			answered = true
			if a.err == nil {
				return storedRecord(a.record)
			}
			return k.failed(ctx, c, client, a.err)
		case <-ctx.Done():
			return Ended(ctx)
		case <-denied:
			denied = client.deniedNow()
			if host := client.deniedFor(c.Work.Kafka.Topic); host != "" {
				return k.http.unanswered(ctx, c, host, errDenied)
			}
		}
	}
}

// recordOf returns the record of an attempt. It always has a value: one without is a tombstone,
// which deletes a key.
func recordOf(c *Call) *kgo.Record {
	t := c.Work.Kafka
	r := &kgo.Record{Topic: t.Topic, Value: c.Payload}
	if r.Value == nil {
		r.Value = []byte("null")
	}
	if t.Key != "" {
		r.Key = []byte(t.Key)
	}
	headers := statedFacts(c)
	headers["carillon-tenant"], headers["content-type"] = c.Tenant, "application/json"
	maps.Copy(headers, t.Headers)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(headers[name])})
	}
	return r
}

// storedRecord says where a record is.
func storedRecord(r *kgo.Record) Result {
	output, _ := json.Marshal(struct { // these always can
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
	}{r.Topic, r.Partition, r.Offset})
	return Result{Outcome: schema.Succeeded, Output: output}
}

// finalThough are errors that the protocol has tried again, and that stay until somebody acts.
var finalThough = []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}

// failed says how an attempt ended whose record was not acknowledged.
func (k *Kafka) failed(ctx context.Context, c *Call, client *kafkaClient, err error) Result {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	var said *kerr.Error
	switch {
	case errors.As(err, &said):
		final := !said.Retriable || slices.ContainsFunc(finalThough, func(f error) bool { return errors.Is(said, f) })
		return Result{Outcome: schema.Failed, Error: "the record was refused: " + said.Message, Final: final}
	case errors.Is(err, kgo.ErrMaxBuffered):
		return Result{Outcome: schema.Failed, Error: "too many records wait for the cluster"}
	}
	if errors.Is(err, kgo.ErrRecordRetries) || errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrClientClosed) {
		if last := client.lastDial(); last != nil {
			err = last
		}
	}
	host, _, _ := net.SplitHostPort(c.Work.Kafka.Brokers[0])
	return k.http.unanswered(ctx, c, host, err)
}
