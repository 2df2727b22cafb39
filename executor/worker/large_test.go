package worker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/dispatcher/queue/jetstream/embedded"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestLargeReplies: of what a worker says no more is kept where the server lets larger messages
// through than 1 MiB: 16 MiB here, of the 64 that it may.
func TestLargeReplies(t *testing.T) {
	const (
		largest = 16 << 20
		body    = largest - 4<<10
	)
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), MaxPayload: largest})
	if err != nil {
		t.Fatalf("start nats: %v", err)
	}
	t.Cleanup(server.Close)
	r := &rig{t: t, server: server}
	r.target = target.NewNATS(target.NATSConfig{Requester: r.queue()})
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	header := func(name, value string) *nats.Msg { return &nats.Msg{Header: nats.Header{name: {value}}} }
	for name, c := range map[string]struct {
		says []*nats.Msg
		want target.Result // but for its output
		out  int           // bytes of that
	}{
		"a result":      {[]*nats.Msg{{Data: make([]byte, body)}}, target.Result{Outcome: schema.Succeeded, OutputCut: true}, target.DefaultMaxOutput},
		"an error":      {[]*nats.Msg{header("Carillon-Error", strings.Repeat("x", body))}, target.Result{Outcome: schema.Failed, Error: strings.Repeat("x", 1024)}, 0},
		"a header":      {[]*nats.Msg{header("X", strings.Repeat("x", body))}, target.Result{Outcome: schema.Succeeded}, 0},
		"many headers":  {[]*nats.Msg{{Header: nats.Header{"X": slices.Repeat([]string{"y"}, 1<<20)}}}, target.Result{Outcome: schema.Succeeded}, 0},
		"a log":         {[]*nats.Msg{{Header: nats.Header{"Carillon-Word": {"log"}}, Data: make([]byte, body)}, {}}, target.Result{Outcome: schema.Succeeded}, 0},
		"a progress":    {[]*nats.Msg{{Header: nats.Header{"Carillon-Word": {"progress"}}, Data: make([]byte, body)}, {}}, target.Result{Outcome: schema.Succeeded}, 0},
		"another word":  {[]*nats.Msg{{Header: nats.Header{"Carillon-Word": {strings.Repeat("x", body)}}}, {}}, target.Result{Outcome: schema.Succeeded}, 0},
		"a retry after": {[]*nats.Msg{{Header: nats.Header{"Carillon-Error": {"no"}, "Carillon-Retry-After": {strings.Repeat("9", body)}}}}, target.Result{Outcome: schema.Failed, Error: "no"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sub, err := nc.Subscribe("work.a", func(m *nats.Msg) {
				for _, say := range c.says {
					if err := m.RespondMsg(say); err != nil {
						t.Errorf("respond: %v", err)
					}
				}
			})
			if err == nil {
				err = nc.Flush()
			}
			if err != nil {
				t.Fatalf("subscribe: %v", err)
			}
			res := r.run(call(""))
			if err := sub.Unsubscribe(); err != nil {
				t.Errorf("unsubscribe: %v", err)
			}
			if res.Outcome != c.want.Outcome || res.Error != c.want.Error || res.OutputCut != c.want.OutputCut || res.Final || len(res.Output) != c.out || cap(res.Output) > 2*c.out {
				t.Errorf("Run: got %s, %d bytes of error, cut %t, %d bytes of %d; want %s, %d, %t, %d",
					res.Outcome, len(res.Error), res.OutputCut, len(res.Output), cap(res.Output), c.want.Outcome, len(c.want.Error), c.want.OutputCut, c.out)
			}
		})
	}
}
