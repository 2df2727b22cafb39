package spine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

const (
	sinkStart = 10 * time.Second // for it to listen
	childEnd  = 15 * time.Second // for a child to end when it is told to
)

// A child is a run of carillon-load. It gets SIGTERM when ctx ends, and SIGKILL when it has not ended childEnd later.
type child struct {
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // how; to be read after done
}

// startChild starts program; its standard output goes to out and the rest to log.
func startChild(ctx context.Context, program string, args []string, out, log io.Writer) (*child, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childEnd
	cmd.SysProcAttr = childAttributes()
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The child dies with this thread, so the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s %s: %w", filepath.Base(program), args[0], err)
	}
	return c, nil
}

// A sinkProcess is a sink that runs.
type sinkProcess struct {
	*child
	url    string
	record string // the file
	log    *os.File
	stop   context.CancelFunc
}

var sinkListens = regexp.MustCompile(`(?m)^sink listens on (\S+)$`)

// startSink starts a sink on a free port and returns when it listens. The caller must end it.
func startSink(ctx context.Context, program, dir string) (*sinkProcess, error) {
	log, err := os.Create(filepath.Join(dir, "sink.log"))
	if err != nil {
		return nil, fmt.Errorf("start sink: %w", err)
	}
	// It outlives ctx, so that an interrupted run does not lose arrivals before its members are stopped.
	sctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &sinkProcess{record: filepath.Join(dir, "seen.ndjson"), log: log, stop: stop}
	heard := &awaited{to: log, want: sinkListens, found: make(chan string, 1)}
	s.child, err = startChild(sctx, program, []string{"sink", "--listen", "127.0.0.1:0", "--out", s.record}, log, heard)
	if err != nil {
		stop()
		return nil, errors.Join(err, log.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, sinkStart)
	defer cancel()
	select {
	case addr := <-heard.found:
		s.url = "http://" + addr
		return s, nil
	case <-s.done:
		err = fmt.Errorf("start sink: it ended at once: %w", errors.Join(s.err, errors.New("see sink.log")))
	case <-ctx.Done():
		err = fmt.Errorf("start sink: %w", ctx.Err())
	}
	return nil, errors.Join(err, s.end())
}

// end stops the sink and waits for it. It may be called again.
func (s *sinkProcess) end() error {
	s.stop()
	<-s.done
	err := s.err
	if errors.Is(err, context.Canceled) { // told to, and ended in order
		err = nil
	}
	if cerr := s.log.Close(); err == nil && cerr != nil && !errors.Is(cerr, os.ErrClosed) {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("stop sink: %w", err)
	}
	return nil
}

// awaited passes on what is written and reports the first match of want, once.
type awaited struct {
	to    io.Writer
	want  *regexp.Regexp
	found chan string

	mu     sync.Mutex // guards what follows
	buf    []byte
	silent bool
}

func (a *awaited) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.silent {
		a.buf = append(a.buf, b...)
		if end := bytes.LastIndexByte(a.buf, '\n'); end >= 0 {
			if m := a.want.FindSubmatch(a.buf[:end]); m != nil {
				a.found <- string(m[1])
				a.silent, a.buf = true, nil
			}
		}
	}
	return a.to.Write(b)
}

// judge runs the judge over everything that was written down, and returns its report. out gets its table.
func (r *run) judge(ctx context.Context, out io.Writer) (check.Report, error) {
	file := filepath.Join(r.cfg.Dir, "check.json")
	args := []string{
		"check", "--out", file, "--sink", r.sink.record, "--changes", r.changesFile(),
		"--wait", r.cfg.Wait.String(), "--apart", r.cfg.Apart.String(),
	}
	for _, source := range r.sources() {
		args = append(args, "--asked", r.askedFile(source), "--acks", r.acksFile(source))
	}
	for _, url := range r.client.URLs {
		args = append(args, "--api", url)
	}
	log, err := os.Create(filepath.Join(r.cfg.Dir, "check.log"))
	if err != nil {
		return check.Report{}, fmt.Errorf("judge: %w", err)
	}
	defer func() { _ = log.Close() }() // a copy for people; the verdict is in the report
	c, err := startChild(ctx, r.cfg.Program, args, out, log)
	if err != nil {
		return check.Report{}, fmt.Errorf("judge: %w", err)
	}
	<-c.done
	const verdict = 1 // the exit code of a judge that did its work and has found something
	var exit *exec.ExitError
	if c.err != nil && (!errors.As(c.err, &exit) || exit.ExitCode() != verdict) {
		return check.Report{}, fmt.Errorf("judge: %w (see %s)", c.err, log.Name())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return check.Report{}, fmt.Errorf("judge: %w", err)
	}
	var rep check.Report
	if err := json.Unmarshal(text, &rep); err != nil {
		return check.Report{}, fmt.Errorf("judge: read report: %w", err)
	}
	return rep, nil
}
