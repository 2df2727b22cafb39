package inproc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/dispatcher/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *queuetest.Rig {
	const maxBytes = 4 << 20
	b := inproc.New(inproc.Config{MaxBytes: maxBytes})
	t.Cleanup(b.Close)
	c := b.Connect("a")
	return &queuetest.Rig{
		Queue:        c,
		Other:        b.Connect("b"),
		MaxBytes:     maxBytes,
		DeleteStream: b.DeleteStream,
		Serve: func(subject string, w queuetest.Worker) func() {
			return b.Serve(subject, func(_ context.Context, headers map[string]string, body []byte) ([]byte, map[string]string) {
				return w(headers, body)
			})
		},
		Close: func() { _ = c.Close() }, // always nil
	}
}

func TestContract(t *testing.T) { queuetest.Exercise(t, open, synctest.Test) }

// The same outside a bubble: nothing in the package needs one.
func TestContractInRealTime(t *testing.T) {
	queuetest.Exercise(t, open, func(t *testing.T, body func(t *testing.T)) {
		t.Parallel()
		body(t)
	})
}

var _ queue.Queue = (*inproc.Conn)(nil)
