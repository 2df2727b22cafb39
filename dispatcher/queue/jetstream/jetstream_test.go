package jetstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/jetstream"
	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/schema"
)

func envelope(tb testing.TB, n int) *queue.Envelope {
	tb.Helper()
	now := time.Now()
	e, err := schema.NewEntry(schema.MakeEntryID(now, 1, uint64(n)), schema.Spec{
		Tenant: "acme", Nominal: now, Accepted: now.UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://127.0.0.1:9/work"}},
	}, []byte("a payload"), now)
	if err != nil {
		tb.Fatalf("NewEntry: %v", err)
	}
	return &queue.Envelope{Entry: e, CheckedAt: now}
}

// publish publishes until the message is stored.
func publish(tb testing.TB, q *jetstream.Queue, env *queue.Envelope) queue.Receipt {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for {
		type answer struct {
			r   queue.Receipt
			err error
		}
		ch := make(chan answer, 1)
		if err := q.Publish(ctx, 0, env, func(r queue.Receipt, err error) { ch <- answer{r, err} }); err != nil {
			tb.Fatalf("Publish: %v", err)
		}
		a := <-ch
		if a.err == nil {
			return a.r
		}
		tb.Logf("publication ended with %v, again", a.err)
	}
}

// fetch fetches one message.
func fetch(tb testing.TB, q *jetstream.Queue) queue.Delivery {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		ds, err := q.Fetch(ctx, 0, schema.Normal, 1, time.Second)
		if err != nil {
			tb.Logf("Fetch: %v, again", err)
		}
		if len(ds) > 0 {
			return ds[0]
		}
	}
	tb.Fatalf("Fetch: no message after %v", patience)
	return nil
}

func TestValidateReportsEveryFault(t *testing.T) {
	server := &embedded.Server{}
	for _, c := range []struct {
		name string
		cfg  jetstream.Config
		want []string // what the error says; none = no error
	}{
		{"URLs", jetstream.Config{URLs: []string{"nats://a:4222", "tls://b:4222"}}, nil},
		{"server", jetstream.Config{Server: server}, nil},
		{"nothing", jetstream.Config{}, []string{"needs URLs"}},
		{"both", jetstream.Config{Server: server, URLs: []string{"nats://a:1"}}, []string{"needs URLs"}},
		{"all at once", jetstream.Config{
			URLs: []string{"nats://a:1", "http://u:hush@b", "%"}, Lanes: -1, Replicas: 6, MaxBytes: 1, User: "u", Token: "hush", Names: "a.b",
		}, []string{"URL 2", "URL 3", "lanes", "replicas", "1 bytes", "go together", "exclude", "prefix"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.cfg.Validate()
			if (err == nil) != (c.want == nil) {
				t.Fatalf("Validate() = %v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate() = %v, want %q in it", err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("Validate() tells a secret: %v", err)
			}
		})
	}
}

func TestStreamsAreBroughtUpToDate(t *testing.T) {
	s := start(t)
	_, js := dial(t, jetstream.Config{Server: s})
	// As an older version may have made it: with other bounds, without consumers, and with a
	// message.
	_, err := js.CreateStream(t.Context(), natsjs.StreamConfig{
		Name: "carillon_runs_0", Subjects: []string{"carillon.run.0.>"}, Retention: natsjs.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatalf("CreateStream: %v", err)
	}
	env := envelope(t, 1)
	if _, err := js.Publish(t.Context(), "carillon.run.0.normal", env.Append(nil)); err != nil {
		t.Fatalf("Publish: %v", err)
	}
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	stream, err := js.Stream(t.Context(), "carillon_runs_0")
	if err != nil {
		t.Fatalf("Stream: %v", err)
	}
	cfg := stream.CachedInfo().Config
	if cfg.Discard != natsjs.DiscardNew || cfg.MaxBytes != maxBytes || cfg.Duplicates != queue.DuplicateWindow {
		t.Errorf("the stream is %+v, want it up to date", cfg)
	}
	for _, p := range schema.Priorities {
		c, err := stream.Consumer(t.Context(), queue.ConsumerName(p))
		if err != nil {
			t.Fatalf("Consumer %s: %v", p, err)
		}
		got := c.CachedInfo().Config
		if got.AckWait != queue.AckWait || got.MaxAckPending != queue.MaxAckPending || got.MaxDeliver != -1 {
			t.Errorf("consumer %s is %+v", p, got)
		}
	}
	if d := fetch(t, q); d.Envelope().Entry.ID != env.Entry.ID {
		t.Errorf("got %s, want the message that was there", d.Envelope().Entry.ID)
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	cfg := jetstream.Config{URLs: []string{"nats://" + l.Addr().String()}, Lanes: 1, MaxBytes: maxBytes}
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := jetstream.Connect(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("Connect without server = %v, want the context's error and the cause", err)
	}
	dir := t.TempDir()
	servers := make(chan *embedded.Server, 1)
	go func() {
		s, err := embedded.Start(embedded.Config{Dir: dir, Listen: true, Port: port})
		if err != nil {
			t.Errorf("embedded.Start: %v", err)
		}
		servers <- s
	}()
	q := connect(t, cfg)
	server := <-servers
	defer func() { server.Close() }()

	// And it waits again: the server goes and comes back, and what it held is delivered.
	first := publish(t, q, envelope(t, 1))
	server.Close()
	if err := q.Ready(); err == nil { // the client may not know yet
		if _, err := q.Time(t.Context()); err == nil {
			t.Error("Time without server = nil, want an error")
		}
	}
	if server, err = embedded.Start(embedded.Config{Dir: dir, Listen: true, Port: port}); err != nil {
		t.Fatalf("embedded.Start: %v", err)
	}
	d := fetch(t, q)
	second := publish(t, q, envelope(t, 2))
	if second.Stream != first.Stream || second.Sequence <= first.Sequence {
		t.Errorf("receipts before and after a restart are %+v and %+v, want one incarnation", first, second)
	}
	d.Ack()
	fetch(t, q).Ack()
}

// refuses answers every client as a NATS server does that does not accept who it is, and returns
// its URL.
func refuses(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); serving.Wait() }) // Accept fails then
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, `INFO {"server_id":"a","version":"2.15.2","proto":1,"max_payload":1048576,"auth_required":true,"headers":true}`+"\r\n")
			_, _ = bufio.NewReader(c).ReadString('\n') // CONNECT
			_, _ = io.WriteString(c, "-ERR 'Authorization Violation'\r\n")
			_ = c.Close()
		}
	})
	return "nats://" + l.Addr().String()
}

// A wrong password does not become right by waiting.
func TestConnectDoesNotWaitWhereItIsRefused(t *testing.T) {
	cfg := jetstream.Config{URLs: []string{refuses(t)}, User: "carillon", Password: "hunter-2", Lanes: 1, MaxBytes: maxBytes}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := jetstream.Connect(ctx, cfg)
	if err == nil {
		t.Fatal(errors.Join(errors.New("Connect with a wrong password = nil, want an error"), q.Close()))
	}
	if !errors.Is(err, nats.ErrAuthorization) || ctx.Err() != nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("Connect with a wrong password = %v, want at once that it was refused, without the password", err)
	}
}

// A pull that finds no consumer has another answer than one whose consumer goes while it waits.
func TestConsumersThatWereGoneBeforeAreMadeAnew(t *testing.T) {
	s := start(t)
	_, js := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	if err := js.DeleteConsumer(t.Context(), "carillon_runs_0", queue.ConsumerName(schema.Normal)); err != nil {
		t.Fatalf("DeleteConsumer: %v", err)
	}
	publish(t, q, envelope(t, 1))
	begin := time.Now()
	fetch(t, q).Ack()
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("the consumer was made anew after %v, want about a second", took)
	}
}

func TestConsumersAreMadeAnew(t *testing.T) {
	s := start(t)
	_, js := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	got := make(chan queue.Delivery, 1)
	go func() { got <- fetch(t, q) }() // waits while the consumer goes
	if err := js.DeleteConsumer(t.Context(), "carillon_runs_0", queue.ConsumerName(schema.Normal)); err != nil {
		t.Fatalf("DeleteConsumer: %v", err)
	}
	publish(t, q, envelope(t, 1))
	select {
	case d := <-got:
		d.Ack()
	case <-time.After(patience):
		t.Errorf("no message after %v", patience)
	}
}

// A stream that was made anew by somebody else is seen by the very next look, though its sequences
// start low, and receipts from before are not taken for its.
func TestFrontTellsAStreamMadeByHand(t *testing.T) {
	s := start(t)
	_, js := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	before := publish(t, q, envelope(t, 1))
	stream, err := js.Stream(t.Context(), "carillon_runs_0")
	if err != nil {
		t.Fatalf("Stream: %v", err)
	}
	cfg := stream.CachedInfo().Config
	cfg.FirstSeq = 0
	if err := js.DeleteStream(t.Context(), cfg.Name); err != nil {
		t.Fatalf("DeleteStream: %v", err)
	}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil && !errors.Is(err, natsjs.ErrStreamNameAlreadyInUse) {
		t.Fatalf("CreateStream: %v", err)
	}
	env := envelope(t, 2)
	if _, err := js.Publish(t.Context(), "carillon.run.0.normal", env.Append(nil)); err != nil {
		t.Fatalf("Publish: %v", err)
	}
	f, err := q.Front(t.Context(), 0, schema.Normal)
	if err != nil || f.Empty || f.Stream == before.Stream {
		t.Errorf("Front = %+v, %v, want the message of another incarnation than %s", f, err, before.Stream)
	}
	if after := publish(t, q, envelope(t, 3)); after.Stream != f.Stream {
		t.Errorf("a receipt after that look is of incarnation %s, want %s", after.Stream, f.Stream)
	}
}

func TestMalformedMessagesAreThrownAwayAtLast(t *testing.T) {
	s := start(t)
	_, js := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	if _, err := js.Publish(t.Context(), "carillon.run.0.normal", []byte("of the far future")); err != nil {
		t.Fatalf("Publish: %v", err)
	}
	if ds, err := q.Fetch(t.Context(), 0, schema.Normal, 10, 100*time.Millisecond); err != nil || len(ds) > 0 {
		t.Fatalf("Fetch = %d messages, %v, want none", len(ds), err)
	}
	depth := func() int {
		l, err := q.Load(t.Context(), 0, schema.Normal)
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		return l.Depth()
	}
	if got := depth(); got != 1 {
		t.Fatalf("depth after one look = %d, want 1: a newer version may understand it", got)
	}
	c, err := js.Consumer(t.Context(), "carillon_runs_0", queue.ConsumerName(schema.Normal))
	if err != nil {
		t.Fatalf("Consumer: %v", err)
	}
	for range 8 { // others look too
		m, err := c.Next(natsjs.FetchMaxWait(patience))
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if err := m.Nak(); err != nil {
			t.Fatalf("Nak: %v", err)
		}
	}
	for end := time.Now().Add(patience); depth() > 0; {
		if _, err := q.Fetch(t.Context(), 0, schema.Normal, 10, 100*time.Millisecond); err != nil {
			t.Fatalf("Fetch: %v", err)
		}
		if time.Now().After(end) {
			t.Fatalf("the message is still there after %v", patience)
		}
	}
}

func TestAnIdleFetchPullsAtMostOnceASecond(t *testing.T) {
	s := start(t)
	nc, _ := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	var pulls atomic.Int32
	if _, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.>", func(*nats.Msg) { pulls.Add(1) }); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	start := time.Now()
	if ds, err := q.Fetch(t.Context(), 0, schema.Normal, 100, 3*time.Second); err != nil || len(ds) > 0 {
		t.Fatalf("Fetch = %d messages, %v, want none", len(ds), err)
	}
	if got, most := pulls.Load(), int32(time.Since(start)/time.Second)+1; got < 1 || got > most {
		t.Errorf("an idle fetch pulled %d times in %v, want 1 to %d", got, time.Since(start), most)
	}
}

// A pull that waited until all that it may bring had arrived would be late by up to two seconds,
// and one without a bound of its bytes would bring 512 times 512 KiB.
func TestAPullAsksForWhatIsThereOrTheFirst(t *testing.T) {
	s := start(t)
	nc, _ := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	pulls, err := nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.>")
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if ds, err := q.Fetch(t.Context(), 0, schema.Normal, 100, 50*time.Millisecond); err != nil || len(ds) > 0 {
		t.Fatalf("Fetch = %d messages, %v, want none", len(ds), err)
	}
	m, err := pulls.NextMsg(patience)
	if err != nil {
		t.Fatalf("NextMsg: %v", err)
	}
	var got struct {
		Expires  time.Duration `json:"expires"`
		Batch    int           `json:"batch"`
		MaxBytes int           `json:"max_bytes"`
		NoWait   bool          `json:"no_wait"`
	}
	if err := json.Unmarshal(m.Data, &got); err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	if !got.NoWait || got.Expires <= 0 || got.Expires > 50*time.Millisecond || got.Batch != 100 || got.MaxBytes != 16<<20 {
		t.Errorf("a pull asks %s, want no_wait, expires up to 50 ms, 100 messages and 16 MiB", m.Data)
	}
}

// Where few messages are left for others that wait already, pulls are refused at once.
func TestARefusedPullIsNotRepeatedAtOnce(t *testing.T) {
	s := start(t)
	nc, js := dial(t, jetstream.Config{Server: s})
	q := connect(t, jetstream.Config{Server: s, Lanes: 1})
	if err := js.DeleteConsumer(t.Context(), "carillon_runs_0", queue.ConsumerName(schema.Normal)); err != nil {
		t.Fatalf("DeleteConsumer: %v", err)
	}
	var pulls atomic.Int32
	if _, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.>", func(m *nats.Msg) { // in the consumer's place
		pulls.Add(1)
		if err := m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"408"}, "Description": {"Requests Pending"}}}); err != nil {
			t.Errorf("RespondMsg: %v", err)
		}
	}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if ds, err := q.Fetch(t.Context(), 0, schema.Normal, 100, 500*time.Millisecond); len(ds) > 0 {
		t.Errorf("Fetch = %d messages, %v, want none", len(ds), err)
	}
	// The pauses are 10, 20, 40, 80, 160 and 250 ms.
	if got := pulls.Load(); got < 2 || got > 7 {
		t.Errorf("a fetch of 500 ms pulled %d times, want 2 to 7", got)
	}
}

// BenchmarkPublishFetchAck takes messages through the embedded server, on files.
func BenchmarkPublishFetchAck(b *testing.B) {
	s, err := embedded.Start(embedded.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatalf("embedded.Start: %v", err)
	}
	defer s.Close()
	q, err := jetstream.Connect(b.Context(), jetstream.Config{Server: s})
	if err != nil {
		b.Fatalf("Connect: %v", err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	}()
	envs := make([]*queue.Envelope, b.N)
	for n := range envs {
		envs[n] = envelope(b, n)
	}
	var failed atomic.Int32
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for _, env := range envs {
			err := q.Publish(b.Context(), 0, env, func(_ queue.Receipt, err error) {
				if err != nil {
					failed.Add(1)
				}
			})
			if err != nil {
				failed.Add(1)
			}
		}
	}()
	for got := 0; got+int(failed.Load()) < b.N; {
		ds, err := q.Fetch(b.Context(), 0, schema.Normal, 500, time.Second)
		if err != nil {
			b.Fatalf("Fetch: %v", err)
		}
		for _, d := range ds {
			d.Ack()
		}
		got += len(ds)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	if n := failed.Load(); n > 0 {
		b.Errorf("%d publications failed", n)
	}
}
