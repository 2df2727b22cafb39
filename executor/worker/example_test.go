package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"carillon.dev/carillon/executor/worker"
)

// A program that runs the task {"nats": {"subject": "work.email"}}, and stops in order on SIGTERM.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect("nats://127.0.0.1:4222", nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println("no NATS here:", err != nil)
		return
	}
	defer nc.Close()

	w := worker.New(nc, worker.Config{Concurrency: 16})
	w.Handle("work.email", func(ctx context.Context, run worker.Run) (any, error) {
		var mail struct{ To []string }
		if err := run.Bind(&mail); err != nil {
			return nil, err // final: the payload stays what it is
		}
		for i, to := range mail.To {
			run.Log("sending to %s", to)
			if err := send(ctx, to, run.ID); err != nil {
				return nil, worker.RetryAfter(err, time.Minute)
			}
			run.Progress(int64(i+1), int64(len(mail.To)))
		}
		return map[string]int{"sent": len(mail.To)}, nil
	})
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
}

// send stands for what a worker does. The run's id keeps a second attempt from doing it twice.
func send(context.Context, string, string) error { return nil }

func ExampleFinal() {
	err := worker.Final(errors.New("no such customer"))
	fmt.Println(err)
	// Output: no such customer
}
