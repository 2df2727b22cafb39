package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A TemporalConfig says how a dev server of Temporal is run.
type TemporalConfig struct {
	// Program is `temporal`, the CLI, which has the server in it; "" = the one of $PATH.
	Program string
	// Tuned lifts the limits of requests a second, sets temporalSettings, and has SQLite write ahead (journal_mode=wal).
	Tuned bool
	// Relaxed acknowledges writes before they are on disk (synchronous=normal). It needs Tuned.
	Relaxed bool
}

// A Temporal is a dev server of Temporal, empty at first, with its data in a file of SQLite.
type Temporal struct {
	process *process
	address string
	path    string
}

// temporalLimits are the settings that bound requests a second, to the server and from it to the store. Their defaults of
// some thousands are for many tenants of one server.
var temporalLimits = []string{
	"frontend.rps", "frontend.namespaceRPS", "frontend.persistenceMaxQPS", "history.rps", "history.persistenceMaxQPS",
	"matching.rps", "matching.persistenceMaxQPS", "worker.persistenceMaxQPS",
}

// temporalUnlimited is more than any machine does.
const temporalUnlimited = 1_000_000

// temporalSettings are other settings that differ from the defaults. The dev server reads search attributes anew for each
// request, which is for tests that change them. It hands no activity over with the answer to a workflow task, and has four
// partitions of each queue, which is for more than one node.
var temporalSettings = []string{
	"system.enableActivityEagerExecution=true", "system.forceSearchAttributesCacheRefreshOnRead=false",
	"matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1",
}

// arguments returns those of the program for a server on a port.
func (c TemporalConfig) arguments(file string, port int) []string {
	args := []string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--db-filename", file, "--log-level", "error",
	}
	if !c.Tuned {
		return args
	}
	sync := "full"
	if c.Relaxed {
		sync = "normal"
	}
	args = append(args, "--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous="+sync)
	for _, setting := range temporalSettings {
		args = append(args, "--dynamic-config-value", setting)
	}
	for _, name := range temporalLimits {
		args = append(args, "--dynamic-config-value", fmt.Sprintf("%s=%d", name, temporalUnlimited))
	}
	return args
}

// StartTemporal starts a dev server in a folder of its own below dir, and returns when it can be connected to.
func StartTemporal(ctx context.Context, dir string, c TemporalConfig) (*Temporal, error) {
	path, err := exec.LookPath(c.name())
	if err == nil {
		path, err = filepath.Abs(path) // it runs in another folder
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: there is none (make .local/bin/temporal builds it): %w", c.name(), err)
	}
	home, err := folder(dir, "temporal", nil)
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	t := &Temporal{address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), path: path}
	t.process, err = run(ctx, program{
		path: path, args: c.arguments(filepath.Join(home, "temporal.db"), port), stop: syscall.SIGTERM, logTo: filepath.Join(dir, "temporal.log"), readyFor: "connect",
		env: []string{"HOME=" + home, "TEMPORAL_CLI_DISABLE_UPDATE_CHECK=1"}, // no file of a user's bears on it
		ready: func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (c TemporalConfig) name() string {
	if c.Program == "" {
		return "temporal"
	}
	return c.Program
}

// freePort returns a port of the loopback address at which nobody listens now.
func freePort(ctx context.Context) (int, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = ln.Close() }() // nobody has connected
	at, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("find a free port: no TCP address")
	}
	return at.Port, nil
}

// Address is where clients connect to.
func (t *Temporal) Address() string { return t.address }

// PID is that of its process.
func (t *Temporal) PID() int { return t.process.PID }

// Version says which server it is.
func (t *Temporal) Version(ctx context.Context) string {
	return strings.TrimPrefix(version(ctx, t.path), "temporal version ")
}

// Stop stops it and waits for it; when ctx ends, it is killed.
func (t *Temporal) Stop(ctx context.Context) error { return t.process.end(ctx) }

// TemporalTuning says what a tuned server has that is not the default.
func TemporalTuning() string {
	return fmt.Sprintf("limits of requests a second %d; %s", temporalUnlimited, strings.Join(temporalSettings, ", "))
}

// TemporalDurability says when a write counts as held.
func TemporalDurability(c TemporalConfig) string {
	how := "journal_mode=wal, synchronous=full (acknowledged = on disk)"
	switch {
	case !c.Tuned:
		how = "its defaults: journal_mode=delete, synchronous=full (acknowledged = on disk)"
	case c.Relaxed:
		how = "journal_mode=wal, synchronous=normal (acknowledged before it is on disk)"
	}
	return "Temporal's dev server: SQLite, one copy, " + how
}
