package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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

	"carillon.dev/carillon/loadtest/api"
)

const (
	sinkStart = 10 * time.Second // for it to listen
	childEnd  = 15 * time.Second // for a child to end when it is told to
)

// A Child is a process that dies with this program. When the context of its start ends it gets
// SIGTERM, and SIGKILL 15 s later.
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
	return Launch(cmd)
}

// Launch starts a command that the kernel ends when the thread that has started it does
// (SysProcAttr.Pdeathsig).
func Launch(cmd *exec.Cmd) (*Child, error) {
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
		return nil, fmt.Errorf("start %s: %w", strings.Join(append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:min(2, len(cmd.Args))]...), " "), err)
	}
	return c, nil
}

// A Server is a child that has reported that it is ready.
type Server struct {
	*Child
	Said string // the first submatch of what it said

	log  *os.File
	stop context.CancelFunc
}

// StartServer starts program and returns when its output matches says, at most within. All that it
// writes goes into the file log. It outlives ctx: the caller must end it, after the members that
// use it.
func StartServer(ctx context.Context, program string, args []string, log string, says *regexp.Regexp, within time.Duration) (*Server, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{log: f, stop: stop}
	heard := Await(f, says)
	if s.Child, err = Start(life, program, args, heard, heard); err != nil {
		stop()
		return nil, errors.Join(err, f.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case s.Said = <-heard.Found:
		return s, nil
	case <-s.Done:
		err = fmt.Errorf("start %s: it ended at once (see %s): %w", args[0], log, s.Err)
	case <-ctx.Done():
		err = fmt.Errorf("start %s: it does not say that it is ready: %w", args[0], ctx.Err())
	}
	return nil, errors.Join(err, s.End())
}

// End stops the server and waits for it. It may be called again.
func (s *Server) End() error {
	s.stop()
	<-s.Done
	err := s.Err
	if errors.Is(err, context.Canceled) { // the caller asked for the end
		err = nil
	}
	if cerr := s.log.Close(); err == nil && !errors.Is(cerr, os.ErrClosed) {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", filepath.Base(s.log.Name()), err)
	}
	return nil
}

// A Sink is `carillon-load sink` as a process.
type Sink struct {
	*Server
	URL    string   // of the first address
	URLs   []string // of all
	Record string   // the file in which it writes down what arrives
}

var sinkListens = regexp.MustCompile(`(?m)^sink listens on (\S+)$`)

// StartSink starts a sink on a free port, from program (carillon-load), and returns when it
// listens. Its record is dir/seen.ndjson. Further arguments are for the program; a "--listen" among
// them takes the place of the free port. The caller must end it.
func StartSink(ctx context.Context, program, dir string, more ...string) (*Sink, error) {
	s := &Sink{Record: filepath.Join(dir, "seen.ndjson")}
	args := []string{"sink", "--out", s.Record}
	if !slices.Contains(more, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	var err error
	s.Server, err = StartServer(ctx, program, append(args, more...), filepath.Join(dir, "sink.log"), sinkListens, sinkStart)
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if slices.Contains(more, "--tls-cert") {
		scheme = "https://"
	}
	for addr := range strings.SplitSeq(s.Said, ",") {
		s.URLs = append(s.URLs, scheme+addr)
	}
	s.URL = s.URLs[0]
	return s, nil
}

// SinkStats counts the calls that a sink has seen, and their runs.
type SinkStats struct {
	Seen int64 `json:"seen"`
	Runs int64 `json:"runs"`
}

// AskSink asks the sink at url for its counts.
func AskSink(ctx context.Context, client *http.Client, url string) (stats SinkStats, err error) {
	if err := api.AskJSON(ctx, client, api.Request{URL: url + "/stats"}, &stats); err != nil {
		return stats, fmt.Errorf("ask the sink: %w", err)
	}
	return stats, nil
}

// An Awaited forwards what is written and reports the first match, once.
type Awaited struct {
	Found chan string // gets the first submatch

	to   io.Writer
	want *regexp.Regexp

	mu     sync.Mutex // guards what follows
	buf    []byte
	silent bool
}

// Await returns an Awaited that forwards to `to` and looks for want in whole lines.
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
