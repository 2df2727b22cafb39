package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	child "carillon.dev/carillon/loadtest/process"
)

const (
	// startEvery is how often a server that starts is asked whether it can be used.
	startEvery = 20 * time.Millisecond
	// logTail is how much of a server's log an error shows.
	logTail = 2000
	// tmpfs is the magic number of that file system (statfs(2)).
	tmpfs = 0x01021994
)

// A program is how a server is run.
type program struct {
	path     string
	args     []string
	env      []string            // besides ours
	user     *syscall.Credential // nil: as we are
	stop     syscall.Signal      // ends it in order
	logTo    string              // file
	ready    func(ctx context.Context) error
	readyFor string // what ready asks, for errors
}

// A process is a server that runs.
type process struct {
	*child.Child

	program program
	signal  func(os.Signal) error
}

// run starts a server and returns when it is ready. It outlives ctx, which bounds the start only.
func run(ctx context.Context, p program) (_ *process, err error) {
	log, err := os.Create(p.logTo)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(p.path), err)
	}
	defer func() { err = errors.Join(err, log.Close()) }() // the child has it open by itself
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Dir = filepath.Dir(p.logTo)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: p.stop, Credential: p.user, Setpgid: true} // a Ctrl-C is for us alone
	s := &process{program: p}
	if s.Child, err = child.Launch(cmd); err != nil {
		return nil, err
	}
	s.signal = cmd.Process.Signal
	if err := s.await(ctx); err != nil {
		select {
		case <-s.Done: // it has told why
			return nil, err
		default:
		}
		return nil, errors.Join(err, s.end(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// await asks until the server is ready.
func (s *process) await(ctx context.Context) error {
	tick := time.NewTicker(startEvery)
	defer tick.Stop()
	for {
		err := s.program.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.Done:
			return fmt.Errorf("start %s: it ended at once: %s", filepath.Base(s.program.path), s.tail())
		case <-ctx.Done():
			return fmt.Errorf("start %s: %s: %w", filepath.Base(s.program.path), s.program.readyFor, err)
		}
	}
}

// end stops the server in order and waits for it; when ctx ends, it is killed.
func (s *process) end(ctx context.Context) error {
	select {
	case <-s.Done:
		return fmt.Errorf("%s had ended before it was stopped: %s", filepath.Base(s.program.path), s.tail())
	default:
	}
	if err := s.signal(s.program.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", filepath.Base(s.program.path), err)
	}
	select {
	case <-s.Done:
		return nil
	case <-ctx.Done():
	}
	err := s.signal(os.Kill)
	<-s.Done
	return fmt.Errorf("stop %s: it had to be killed: %w", filepath.Base(s.program.path), errors.Join(ctx.Err(), err))
}

// tail returns how it ended and the end of its log.
func (s *process) tail() string {
	text, err := os.ReadFile(s.program.logTo)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v: %s", s.Err, text[max(0, len(text)-logTail):])
}

// folder makes dir/name, empty, on a disk, and gives it to user.
func folder(dir, name string, user *syscall.Credential) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("make a server's folder: %w", err)
	}
	if user != nil {
		if err := os.Chown(path, int(user.Uid), int(user.Gid)); err != nil {
			return "", fmt.Errorf("make a server's folder: %w", err)
		}
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return "", fmt.Errorf("make a server's folder: %w", err)
	}
	if fs.Type == tmpfs {
		return "", fmt.Errorf("make a server's folder: %s is in memory, not on a disk, so a sync would cost nothing", dir)
	}
	return path, nil
}

// version returns what a program says with --version.
func version(ctx context.Context, path string) string {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "unknown"
	}
	for i, b := range out {
		if b == '\n' {
			return string(out[:i])
		}
	}
	return string(out)
}
