package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/server"
)

const (
	asynqInserters = 64 // calls at the same time: there is no call for many tasks
	asynqPart      = 100

	// What tuned means. A server takes tasks one by one from one goroutine, so several share the work; each looks often. Of
	// 1, 4, 8, 16 and 32 servers with 32 to 500 workers these burnt down fastest, in trials on a busy machine.
	asynqServers     = 4
	asynqConcurrency = 50 // of each
	asynqCheck       = 5 * time.Millisecond
	asynqDelayed     = 5 * time.Millisecond
	asynqConns       = 16 // of each

	asynqQueue = "default"
	asynqStop  = 30 * time.Second
)

// asynqPeer is asynq on a Redis of its own.
//
// It keeps the instant of a scheduled task in whole seconds and drops the rest, so a task begins up to a second early. With
// roundUp the caller rounds up to the next second, so that none does.
type asynqPeer struct {
	tuned   bool
	roundUp bool
	aof     server.AOF
	log     *slog.Logger

	redis     *server.Redis
	client    *asynq.Client
	inspector *asynq.Inspector
	version   string
}

// asynqPayload is that of a task.
type asynqPayload struct {
	measure.Job

	Pad string `json:"pad,omitempty"`
}

// Name implements measure.Peer.
func (a *asynqPeer) Name() string {
	switch {
	case !a.tuned:
		return "asynq-default"
	case a.roundUp:
		return "asynq-punctual"
	default:
		return "asynq-" + string(a.aof)
	}
}

// Settings implements measure.Peer.
func (a *asynqPeer) Settings() measure.Settings {
	s := measure.Settings{
		Durability: server.RedisDurability(a.aof),
		Versions:   map[string]string{"asynq": moduleVersion("github.com/hibiken/asynq"), "redis": a.version},
		Tuning:     map[string]string{"insert": fmt.Sprintf("%d calls at a time", asynqInserters)},
	}
	if a.tuned {
		s.Tuning["servers"] = fmt.Sprint(asynqServers)
		s.Tuning["Concurrency"] = fmt.Sprint(asynqConcurrency)
		s.Tuning["TaskCheckInterval"] = asynqCheck.String()
		s.Tuning["DelayedTaskCheckInterval"] = asynqDelayed.String()
	}
	if a.roundUp {
		s.Tuning["ProcessAt"] = "rounded up to whole seconds by the caller"
	}
	return s
}

func (a *asynqPeer) redisOptions(conns int) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: a.redis.Socket(), PoolSize: conns}
}

// Start implements measure.Peer.
func (a *asynqPeer) Start(ctx context.Context, dir string) (err error) {
	if a.redis, err = server.StartRedis(ctx, dir, a.aof); err != nil {
		return err
	}
	a.version = a.redis.Version(ctx)
	a.client = asynq.NewClient(a.redisOptions(asynqInserters))
	a.inspector = asynq.NewInspector(a.redisOptions(1))
	if err := a.client.Ping(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// Enqueue implements measure.Peer.
func (a *asynqPeer) Enqueue(ctx context.Context, wave, n, payload int, at func(int) time.Time) error {
	pad := measure.Pad(payload)
	return inParts(ctx, n, asynqPart, asynqInserters, func(ctx context.Context, from, to int) error {
		for i := from; i < to; i++ {
			text, err := json.Marshal(asynqPayload{measure.Job{Wave: wave, I: i}, pad})
			if err != nil {
				return err
			}
			var options []asynq.Option
			if due := at(i); !due.IsZero() {
				if whole := due.Truncate(time.Second); a.roundUp && whole.Before(due) {
					due = whole.Add(time.Second)
				}
				options = append(options, asynq.ProcessAt(due))
			}
			if _, err := a.client.EnqueueContext(ctx, asynq.NewTask("run", text), options...); err != nil {
				return err
			}
		}
		return nil
	})
}

// RunWorkers implements measure.Peer.
func (a *asynqPeer) RunWorkers(ctx context.Context, handle measure.Handler) error {
	cfg := asynq.Config{Logger: asynqLog{a.log}, LogLevel: asynq.WarnLevel, ShutdownTimeout: asynqStop}
	servers, conns := 1, 0
	if a.tuned {
		servers, conns = asynqServers, asynqConns
		cfg.Concurrency, cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval = asynqConcurrency, asynqCheck, asynqDelayed
	}
	handler := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var p asynqPayload
		if err := json.Unmarshal(task.Payload(), &p); err != nil {
			return err
		}
		return handle(ctx, p.Job)
	})
	var started []*asynq.Server
	var err error
	for range servers {
		s := asynq.NewServer(a.redisOptions(conns), cfg)
		if err = s.Start(handler); err != nil {
			err = fmt.Errorf("start server: %w", err)
			break
		}
		started = append(started, s)
	}
	if err == nil {
		<-ctx.Done()
	}
	var all sync.WaitGroup
	for _, s := range started {
		all.Go(s.Shutdown)
	}
	all.Wait()
	return err
}

// Unfinished implements measure.Peer.
func (a *asynqPeer) Unfinished(context.Context) (int, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Pending + info.Active + info.Scheduled + info.Retry, nil
}

// Servers implements measure.Peer.
func (a *asynqPeer) Servers() map[string]int { return map[string]int{"redis": a.redis.PID()} }

// Stop implements measure.Peer.
func (a *asynqPeer) Stop(ctx context.Context) error {
	var errs []error
	if a.client != nil {
		errs = append(errs, a.client.Close(), a.inspector.Close())
	}
	if a.redis != nil {
		errs = append(errs, a.redis.Stop(ctx))
	}
	return errors.Join(errs...)
}

// asynqLog passes on what asynq says.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) say(level slog.Level, args []any) {
	l.log.Log(context.Background(), level, "asynq says", "text", strings.TrimSpace(fmt.Sprint(args...)))
}

// Debug and the others implement asynq.Logger.
func (l asynqLog) Debug(args ...any) { l.say(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.say(slog.LevelInfo, args) }
func (l asynqLog) Warn(args ...any)  { l.say(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.say(slog.LevelError, args) }

// Fatal is for what asynq cannot go on after; it expects not to get control back.
func (l asynqLog) Fatal(args ...any) {
	l.say(slog.LevelError+4, args)
	panic(fmt.Sprint(args...))
}
