package target

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"carillon.dev/carillon/schema"
)

const leftLog = "a script could not be ended: its attempt is over, and it may still run"

// TestAScriptThatCannotBeKilledIsLeft: a command that was another user's, or that hung in the
// kernel, held its attempt up for ever, and nothing said so.
func TestAScriptThatCannotBeKilledIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		guarantee schema.Guarantee
		fault     error // of a signal; nil: it is sent, and changes nothing
		cause     error
		want      Result
		logs      []string
	}{
		"another user's, at its time-out": {
			schema.AtLeastOnce, syscall.EPERM, ErrTimeout,
			Result{Outcome: schema.TimedOut, Error: "it had not ended at the time-out, and could not be killed: it may still run"},
			[]string{"a script could not be signalled", leftLog},
		},
		"another user's, cancelled": {
			schema.AtLeastOnce, syscall.EPERM, ErrCancelled,
			Result{Outcome: schema.Cancelled, Error: "cancelled: the script could not be killed, and may still run"},
			[]string{"a script could not be signalled", leftLog},
		},
		"hung in the kernel": {
			schema.AtLeastOnce, nil, ErrTimeout,
			Result{Outcome: schema.TimedOut, Error: "it had not ended at the time-out, and could not be killed: it may still run"},
			[]string{leftLog},
		},
		"of effectively_once work: the next attempt could overlap": {
			schema.EffectivelyOnce, nil, ErrTimeout,
			Result{Outcome: schema.TimedOut, Error: "it had not ended at the time-out, and could not be killed: it may still run", Final: true},
			[]string{leftLog},
		},
		"of effectively_once work, at a stop": {
			schema.EffectivelyOnce, nil, ErrStopped,
			Result{Outcome: schema.Failed, Error: ErrStopped.Error() + ": the script could not be killed, and may still run", Stopped: true},
			[]string{leftLog},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s3cret")
			s, call := shell(t, `echo hi; touch "$0"; exec sleep 1000`, func(sc *ScriptCommand) { sc.Args, sc.Grace = append(sc.Args, file), time.Millisecond })
			call.Work.Guarantee = c.guarantee
			var log bytes.Buffer // read when nobody writes it
			s.log, s.killWait, s.signalFailures = slog.New(slog.NewTextHandler(&log, nil)), time.Millisecond, rate.Sometimes{First: 1}
			var group atomic.Int64
			s.kill = func(pid int, _ syscall.Signal) error {
				group.Store(int64(pid))
				return c.fault
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				started(t, file)
				cancel(c.cause)
			}()
			ended := make(chan Result, 1)
			go func() { ended <- s.Run(ctx, call) }()
			var res Result
			select {
			case res = <-ended:
			case <-time.After(time.Minute):
				t.Error("Run of a command that cannot be killed: it goes on, want that it is left")
				_ = syscall.Kill(int(group.Load()), syscall.SIGKILL)
				<-ended
				return
			}
			if res.Outcome != c.want.Outcome || res.Error != c.want.Error || res.Final != c.want.Final || res.Stopped != c.want.Stopped || string(res.Output) != "hi\n" || res.Lingering == nil {
				t.Fatalf("Run: got %+v (%q), want %+v with its output, and what tells of its end", res, res.Output, c.want)
			}
			select {
			case <-res.Lingering:
				t.Error("the command is said to have ended, and goes on")
			default:
			}
			if err := syscall.Kill(int(group.Load()), syscall.SIGKILL); err != nil {
				t.Errorf("kill what was left: %v, want that it goes on", err)
			}
			<-res.Lingering
			if pids := living(t, call); len(pids) > 0 {
				t.Errorf("processes %v of the run live on", pids)
			}
			for _, want := range append(c.logs, "a script that could not be ended has ended") {
				if n := strings.Count(log.String(), want+`"`); n != 1 {
					t.Errorf("it is logged %d times that %s, want once:\n%s", n, want, log.String())
				}
			}
			if n := strings.Count(log.String(), "script=x run="+call.Run.String()); n != len(c.logs)+1 || strings.Contains(log.String(), "s3cret") {
				t.Errorf("%d lines name command and run, want %d, and none an argument:\n%s", n, len(c.logs)+1, log.String())
			}
		})
	}
}
