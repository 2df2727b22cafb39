package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	sinkStart = 10 * time.Second // for it to listen
	childEnd  = 15 * time.Second // for a child to end when it is told to
)

// A Child is a process of ours. It gets SIGTERM when the context ends that it was started with, SIGKILL when it has not
// ended 15 s later, and dies with this program.
type Child struct {
	PID  int
	Done chan struct{} // closed when it has ended
	Err  error         // how; to be read after Done
}

// Start starts program; its standard output goes to out and the rest to log.
func Start(ctx context.Context, program string, args []string, out, log io.Writer) (*Child, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childEnd
	cmd.SysProcAttr = childAttributes()
	c := &Child{Done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The child dies with this thread, so the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.Done)
		err := cmd.Start()
		if err == nil {
			c.PID = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.Err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s %s: %w", filepath.Base(program), args[0], err)
	}
	return c, nil
}

// A Sink is `carillon-load sink` as a process.
type Sink struct {
	*Child
	URL    string   // of the first address
	URLs   []string // of all
	Record string   // the file in which it writes down what arrives

	log  *os.File
	stop context.CancelFunc
}

var sinkListens = regexp.MustCompile(`(?m)^sink listens on (\S+)$`)

// StartSink starts a sink on a free port, from program (carillon-load), and returns when it listens. Its record is
// dir/seen.ndjson. Further arguments are for the program; a "--listen" among them takes the place of the free port. The caller must end it.
func StartSink(ctx context.Context, program, dir string, more ...string) (*Sink, error) {
	log, err := os.Create(filepath.Join(dir, "sink.log"))
	if err != nil {
		return nil, fmt.Errorf("start sink: %w", err)
	}
	// It outlives ctx, so that an interrupted run does not lose arrivals before its members are stopped.
	sctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Sink{Record: filepath.Join(dir, "seen.ndjson"), log: log, stop: stop}
	heard := Await(log, sinkListens)
	args := []string{"sink", "--out", s.Record}
	if !slices.Contains(more, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	s.Child, err = Start(sctx, program, append(args, more...), log, heard)
	if err != nil {
		stop()
		return nil, errors.Join(err, log.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, sinkStart)
	defer cancel()
	select {
	case addresses := <-heard.Found:
		scheme := "http://"
		if slices.Contains(more, "--tls-cert") {
			scheme = "https://"
		}
		for addr := range strings.SplitSeq(addresses, ",") {
			s.URLs = append(s.URLs, scheme+addr)
		}
		s.URL = s.URLs[0]
		return s, nil
	case <-s.Done:
		err = fmt.Errorf("start sink: it ended at once: %w", errors.Join(s.Err, errors.New("see sink.log")))
	case <-ctx.Done():
		err = fmt.Errorf("start sink: %w", ctx.Err())
	}
	return nil, errors.Join(err, s.End())
}

// End stops the sink and waits for it. It may be called again.
func (s *Sink) End() error {
	s.stop()
	<-s.Done
	err := s.Err
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

// An Awaited passes on what is written and reports the first match, once.
type Awaited struct {
	Found chan string // gets the first submatch

	to   io.Writer
	want *regexp.Regexp

	mu     sync.Mutex // guards what follows
	buf    []byte
	silent bool
}

// Await returns an Awaited that passes on to to and looks for want in whole lines.
func Await(to io.Writer, want *regexp.Regexp) *Awaited {
	return &Awaited{Found: make(chan string, 1), to: to, want: want}
}

// Write implements io.Writer.
func (a *Awaited) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.silent {
		a.buf = append(a.buf, b...)
		if end := bytes.LastIndexByte(a.buf, '\n'); end >= 0 {
			if m := a.want.FindSubmatch(a.buf[:end]); m != nil {
				a.Found <- string(m[1])
				a.silent, a.buf = true, nil
			}
		}
	}
	return a.to.Write(b)
}
