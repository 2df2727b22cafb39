package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// platformError is nil where members can be run.
func platformError() error { return nil }

// identify returns the identity of the process that has pid now, and what it does. A zombie counts
// as Stopped: it runs nothing and holds nothing, once its last thread has gone.
func identify(pid int) (identity, State, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return identity{}, Stopped, fmt.Errorf("look at process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, Stopped, fmt.Errorf("read boot id: %w", err)
	}
	state, started, err := parseStat(string(stat))
	if err != nil {
		return identity{}, Stopped, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return identity{PID: pid, Started: started, Boot: strings.TrimSpace(string(boot))}, state, nil
}

// parseStat reads state and start time from a line of /proc/<pid>/stat (proc(5)). The second field,
// the command's name, may hold blanks and parentheses, so fields are counted from the last closing
// one.
func parseStat(stat string) (State, uint64, error) {
	const ( // the numbers of proc(5) less 3, the first one after the split
		stateField     = 0
		threadsField   = 17
		startTimeField = 19
	)
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) <= startTimeField {
		return Stopped, 0, fmt.Errorf("unreadable stat line %q", stat)
	}
	started, err := strconv.ParseUint(fields[startTimeField], 10, 64)
	if err != nil {
		return Stopped, 0, fmt.Errorf("unreadable start time in stat line: %w", err)
	}
	switch fields[stateField] {
	case "Z", "X", "x":
		// The first thread can be a zombie while others are still on their way out, with sockets
		// and files open.
		if threads := fields[threadsField]; threads != "0" && threads != "1" {
			return Running, started, nil
		}
		return Stopped, started, nil
	case "T":
		return Frozen, started, nil
	default:
		return Running, started, nil
	}
}

// processAttributes puts a process into a session and process group of its own, so that Ctrl-C in
// the terminal does not reach it; attached ones get SIGKILL when the thread that starts them ends.
func processAttributes(detached bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if !detached {
		attributes.Pdeathsig = syscall.SIGKILL
	}
	return attributes
}

// lock takes the file lock at path, waiting for its holder, and returns what gives it back. The
// kernel gives it back when the holder dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = poll(ctx, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, errors.Join(err, f.Close()))
	}
	return func() { _ = f.Close() }, nil
}
