package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A State is what a member's process is doing.
type State string

// The states of a process.
const (
	Running State = "running"
	Frozen  State = "frozen"  // stopped by a signal; holds its memory, ports and connections
	Stopped State = "stopped" // no such process; its data may be there
)

// errGone says that the process to signal has ended.
var errGone = errors.New("the process has ended")

// pollEvery is how often a wait for another process polls.
const pollEvery = 20 * time.Millisecond

// An identity names one process for ever. A pid alone does not: the kernel reuses pids, and a
// signal could hit another process.
type identity struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started_ticks"` // clock ticks after the boot
	Boot    string `json:"boot_id"`
}

// state says what the process is doing now; Stopped if its pid belongs to another one.
func (id identity) state() State {
	now, state, err := identify(id.PID)
	if err != nil || now != id {
		return Stopped
	}
	return state
}

// signal sends sig to this very process, or answers errGone.
//
// The order matters: the handle (a pidfd) is opened first and the identity checked after, so that
// the handle is known to hold the process meant, and the signal cannot reach one that was given the
// pid in between.
func (id identity) signal(sig syscall.Signal) error {
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", id.PID, err)
	}
	defer func() { _ = p.Release() }() // gives the handle back; cannot fail usefully
	if id.state() == Stopped {
		return errGone
	}
	if err := p.Signal(sig); errors.Is(err, os.ErrProcessDone) {
		return errGone
	} else if err != nil {
		return fmt.Errorf("send %v to process %d: %w", sig, id.PID, err)
	}
	return nil
}

// waitStopped waits until the process has ended.
func (id identity) waitStopped(ctx context.Context) error {
	return poll(ctx, func() (bool, error) { return id.state() == Stopped, nil })
}

// stop ends the process: thaw, SIGTERM, and SIGKILL when it has not gone after grace. A process
// that is not there is a success.
func (id identity) stop(ctx context.Context, grace time.Duration) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := id.signal(sig); errors.Is(err, errGone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	graceful, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if id.waitStopped(graceful) == nil {
		return nil
	}
	return id.kill(ctx)
}

// kill ends the process with SIGKILL and waits until it has gone.
func (id identity) kill(ctx context.Context) error {
	if err := id.signal(syscall.SIGKILL); errors.Is(err, errGone) {
		return nil
	} else if err != nil {
		return err
	}
	return id.waitStopped(ctx)
}

// pidFile is the file in a member's folder that holds its process's identity.
const pidFile = "pid.json"

// readIdentity returns the identity stored in dir; ok is false if there is none.
func readIdentity(dir string) (id identity, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, fmt.Errorf("read pid file: %w", err)
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return identity{}, false, fmt.Errorf("read pid file of %s: %w", dir, err)
	}
	return id, true, nil
}

func writeIdentity(dir string, id identity) error {
	text, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode pid file: %w", err)
	}
	return writeFile(filepath.Join(dir, pidFile), append(text, '\n'), 0o600)
}

// A launcher starts processes. Detached ones outlive this program; the others are killed by the
// kernel when this program dies, however it dies.
type launcher struct {
	detached bool
	starts   chan startRequest // to the thread of the attached ones; nil if detached
	running  sync.WaitGroup    // that thread, and the goroutines that reap its processes
}

type startRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

// newLauncher returns a launcher; close it when every process it started has ended.
func newLauncher(detached bool) *launcher {
	l := &launcher{detached: detached}
	if detached {
		return l
	}
	l.starts = make(chan startRequest)
	// The kernel sends a parent-death signal when the *thread* that started the process ends, and
	// the Go runtime may end a thread while the program lives. So all starts come from one thread,
	// kept until close.
	l.running.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for r := range l.starts {
			r.reply <- r.cmd.Start()
		}
	})
	return l
}

func (l *launcher) close() {
	if l.starts != nil {
		close(l.starts)
		l.running.Wait()
	}
}

// start starts argv in dir, with its output appended to logFile, and stores its identity in dir.
func (l *launcher) start(dir, logFile string, argv []string) (identity, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return identity{}, fmt.Errorf("open log: %w", err)
	}
	// the child has its own descriptor; nothing was written through this one
	defer func() { _ = out.Close() }()
	// not CommandContext: a member outlives the call that starts it
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = processAttributes(l.detached)
	if l.detached {
		err = cmd.Start()
	} else {
		r := startRequest{cmd: cmd, reply: make(chan error, 1)}
		l.starts <- r
		err = <-r.reply
	}
	if err != nil {
		return identity{}, fmt.Errorf("start %s: %w", argv[0], err)
	}
	// An unreaped child keeps its pid, so it can be identified even if it has ended by now.
	id, _, err := identify(cmd.Process.Pid)
	if err == nil {
		err = writeIdentity(dir, id)
	}
	if err != nil {
		_ = cmd.Process.Kill()
	}
	l.running.Go(func() { _ = cmd.Wait() }) // reaps it; how it ended is in its log
	if err != nil {
		return identity{}, fmt.Errorf("note process of %s: %w", argv[0], err)
	}
	return id, nil
}

// poll calls done now and every pollEvery until it answers true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// writeFile replaces a file in one step, so that a reader finds the old text or the new one, never
// half of it.
func writeFile(path string, text []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
