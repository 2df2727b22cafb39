package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	serverStart = time.Minute // for a server to say that it is up
	serverEnd   = time.Minute // for it to end when it is told to: it waits for what is under way
)

// ProgramEnv names the program that is tested; by default it is built from the work tree.
const ProgramEnv = "CONSOLE_PROGRAM"

// root returns the folder of the repository.
var root = sync.OnceValue(func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
})

// program builds the program, once, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	if stated := os.Getenv(ProgramEnv); stated != "" {
		return stated, nil
	}
	return buildProgram("carillon", "console-tests")
})

// nextProgram is the same program of another version.
var nextProgram = sync.OnceValues(func() (string, error) { return buildProgram("carillon-next", nextVersion) })

const nextVersion = "v99.0.0-next"

// buildProgram builds as go test does, whose packages are there already.
func buildProgram(name, version string) (string, error) {
	path := filepath.Join(root(), ".local", "console", name)
	build := exec.Command("go", "build", "-ldflags", "-X main.version="+version, "-o", path, "./cmd/carillon") // #nosec G204 -- our own
	build.Dir = root()
	build.Env = append(os.Environ(), "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build carillon: %w\n%s", err, text)
	}
	return path, nil
}

// A Server is a `carillon dev` of its own: a folder, a free port on the loopback interface. It can be
// stopped and started again with its data.
type Server struct {
	URL string // base URL of its API, without a slash at the end

	t    testing.TB
	path string // of the program
	dir  string
	port string // "0" until it has one
	env  []string
	cmd  *exec.Cmd
	log  *syncBuffer
	gone chan error
}

// StartServer starts a server, which ends with the test. env are settings for its environment, such as
// "CARILLON_API_READ_ONLY=true".
func StartServer(t testing.TB, env ...string) *Server {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, path, env...)
}

func startServer(t testing.TB, path string, env ...string) *Server {
	t.Helper()
	s := &Server{t: t, path: path, dir: t.TempDir(), port: "0", env: env, log: new(syncBuffer)}
	s.Start()
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("end of the log of the server:\n%s", s.log.tail())
		}
	})
	return s
}

// Console returns the address of the page.
func (s *Server) Console() string { return s.URL + "/console/" }

var isUp = regexp.MustCompile(`Carillon is up\..* API (\S+)`)

// Start starts a server that is stopped, with its data and on its port, and waits until it is up.
func (s *Server) Start() {
	s.t.Helper()
	args := []string{"dev", "--port", s.port, "--data-dir", filepath.Join(s.dir, "data"), "--log-level", "warn"}
	s.cmd = exec.Command(s.path, args...) // #nosec G204 -- our own
	// Secrets can be kept, and nothing that the shell of the tester says counts.
	s.cmd.Env = append(cleanEnvironment(), "CARILLON_SECRETS_KEYS=k1:"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	s.cmd.Env = append(s.cmd.Env, s.env...)
	out := newAwaited(s.log, isUp)
	s.cmd.Stdout, s.cmd.Stderr = out, s.log
	gone, err := launch(s.cmd)
	if err != nil {
		s.t.Fatalf("start the server: %v", err)
	}
	s.gone = gone
	ctx, cancel := context.WithTimeout(context.Background(), serverStart)
	defer cancel()
	select {
	case url := <-out.found:
		s.URL = strings.TrimSuffix(url, "/")
		s.port = s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	case err := <-gone:
		s.gone <- err
		s.t.Fatalf("the server has ended: %v\n%s", err, s.log.tail())
	case <-ctx.Done():
		s.t.Fatalf("the server is not up after %v\n%s", serverStart, s.log.tail())
	}
}

// Stop asks the server to end, and waits until it has.
func (s *Server) Stop() {
	s.t.Helper()
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it has ended by itself
	over := time.NewTimer(serverEnd)
	defer over.Stop()
	select {
	case <-s.gone:
	case <-over.C:
		_ = s.cmd.Process.Kill()
		<-s.gone
		s.t.Errorf("the server does not end within %v", serverEnd)
	}
	s.cmd = nil
}

// cleanEnvironment is ours without what would set up a node.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "CARILLON_") {
			env = append(env, entry)
		}
	}
	return env
}

// launch starts a command that the kernel ends when this program does. How it ended comes through the
// channel.
func launch(cmd *exec.Cmd) (chan error, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started, gone := make(chan error), make(chan error, 1)
	go func() {
		// The child dies with this thread, so the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			gone <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return gone, nil
}

// run runs the program to its end and returns what it printed.
func runProgram(ctx context.Context, path string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...) // #nosec G204 -- our own
	cmd.Env = append(cleanEnvironment(), env...)
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &faults
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("carillon %s: %w\n%s", strings.Join(args, " "), err, faults.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(text)
}

// tail returns the end of what was written.
func (b *syncBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	const most = 4000
	text := b.buf.String()
	return text[max(0, len(text)-most):]
}

// awaited forwards what is written and tells of the first match.
type awaited struct {
	found chan string // gets the first submatch
	to    *syncBuffer
	want  *regexp.Regexp
	line  []byte
}

func newAwaited(to *syncBuffer, want *regexp.Regexp) *awaited {
	return &awaited{found: make(chan string, 1), to: to, want: want}
}

func (a *awaited) Write(text []byte) (int, error) {
	if a.want != nil {
		a.line = append(a.line, text...)
		if m := a.want.FindSubmatch(a.line); m != nil && bytes.IndexByte(a.line, '\n') >= 0 {
			a.found <- string(m[1])
			a.want, a.line = nil, nil
		}
	}
	n, err := a.to.Write(text)
	return n, errors.Join(err)
}
