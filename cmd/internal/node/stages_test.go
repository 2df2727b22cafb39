package node

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCleanupsRunLastInFirstOut(t *testing.T) {
	var c cleanups
	var order []string
	for _, name := range []string{"store", "queue", "executor"} {
		c.push(name, func() error {
			order = append(order, name)
			return errBroken // stops nobody
		})
	}
	c.run(slog.New(slog.DiscardHandler))
	if got := strings.Join(order, " "); got != "executor queue store" {
		t.Errorf("closed %s, want executor queue store", got)
	}
}

func TestStagesStopInTheOppositeOrderEachBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stages
		var order []string // one part after the other
		for _, name := range []string{"api", "ring", "dispatcher"} {
			s.start(t.Context(), name, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // the next is not told before this one has ended
				order = append(order, name)
				return nil
			})
		}
		s.stop(slog.New(slog.DiscardHandler))
		if got := strings.Join(order, " "); got != "dispatcher ring api" {
			t.Errorf("stopped %s, want dispatcher ring api", got)
		}
	})
}

func TestStageThatDoesNotStopHoldsNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stages
		release := make(chan struct{})
		stopped := false
		s.start(t.Context(), "api", func(ctx context.Context) error {
			<-ctx.Done()
			stopped = true
			return nil
		})
		s.start(t.Context(), "stuck", func(context.Context) error {
			<-release
			return nil
		})
		log, heard := listenFor("part did not stop in time: going on without it")
		began := time.Now()
		s.stop(log)
		if took := time.Since(began); took != stopWithin || !stopped || len(heard) != 1 {
			t.Errorf("stop took %v, the other part stopped: %t, told %d times; want %v, true, 1", took, stopped, len(heard), stopWithin)
		}
		close(release)
	})
}

func TestStageThatMayWaitIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stages
		const drain = 5 * time.Minute
		ended := false
		s.startDraining(t.Context(), "executor", drain, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(drain + stopWithin/2)
			ended = true
			return nil
		})
		log, heard := listenFor("part did not stop in time: going on without it")
		s.stop(log)
		if !ended || len(heard) != 0 {
			t.Errorf("the part ended before the stop did: %t, given up %d times; want true, 0", ended, len(heard))
		}
	})
}

func TestStageThatFailsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stages
		s.start(t.Context(), "ring", func(context.Context) error { return errBroken })
		if err := <-s.failed(); err == nil || err.Error() != "ring: broken" {
			t.Errorf("failed = %v, want ring: broken", err)
		}
		s.stop(slog.New(slog.DiscardHandler))
	})
}
