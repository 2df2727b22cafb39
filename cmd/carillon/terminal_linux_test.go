package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openTerminal makes a pseudo-terminal and returns what its user sees and types, and the program's side.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("make a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() }) // the test may have closed it
	var locked, number int32
	control(t, user, syscall.TIOCSPTLCK, &locked)
	control(t, user, syscall.TIOCGPTN, &number)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open the program's side of the terminal: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

// control does an ioctl that takes a number.
func control(t *testing.T, f *os.File, request uintptr, number *int32) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(number))) // #nosec G103 -- the kernel's interface
	})
	if err != nil || errno != 0 {
		t.Fatalf("ioctl %#x of the terminal: %v, %v", request, err, errno)
	}
}

// screen is what was shown on a terminal so far.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	shown chan struct{} // told of more
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.shown <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until what was shown matches.
func (s *screen) await(t *testing.T, what *regexp.Regexp) {
	t.Helper()
	limit := time.After(time.Minute)
	for !what.MatchString(s.String()) {
		select {
		case <-s.shown:
		case <-limit:
			t.Fatalf("the screen shows no %v:\n%q", what, s)
		}
	}
}

// slowly stands before a node and holds back what it answers after so many bytes, until it is told to go on.
func slowly(t *testing.T, api string, after int64, on <-chan struct{}) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close() // ends Accept
		wg.Wait()
	})
	wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = down.Close() }()
				up, err := net.Dial("tcp", strings.TrimPrefix(api, "http://"))
				if err != nil {
					t.Errorf("reach the node: %v", err)
					return
				}
				defer func() { _ = up.Close() }()
				wg.Go(func() {
					_, _ = io.Copy(up, down) // either side may end it
					_ = up.Close()
				})
				if _, err := io.CopyN(down, up, after); err == nil {
					<-on
					_, _ = io.Copy(down, up)
				}
			})
		}
	})
	return "http://" + l.Addr().String()
}

// A person who imports a file sees a bar that fills, and the summary in its place.
func TestImportDrawsABarOnATerminal(t *testing.T) {
	api := startNode(t)
	due := importDue()
	file := writeImport(t, true, due)
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	url := slowly(t, api, 2*cutAfter, goOn)
	t.Cleanup(release) // before the node's proxy is waited for

	user, program := openTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "import", "--api", url, "--parallel", "1", file)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // if this program dies, the terminal's end ends it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the program has its own: the terminal ends with it
	seen := &screen{shown: make(chan struct{}, 1)}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(seen, user)
		read <- err
	}()
	partly := regexp.MustCompile(`\r\x1b\[2K█+░+ +[1-9][0-9]?%, [1-9][0-9]* lines, [0-9]+/s, [0-9hms]+ left`)
	seen.await(t, partly)
	if strings.Contains(seen.String(), "created") {
		t.Errorf("there is a summary before the import has ended:\n%q", seen)
	}
	release()
	err := cmd.Wait()
	if rerr := <-read; !errors.Is(rerr, syscall.EIO) { // how a terminal ends whose program has gone
		t.Errorf("read the terminal: %v", rerr)
	}
	if err != nil {
		t.Fatalf("import on a terminal: %v\n%q", err, seen)
	}
	// The last bar is wiped, and what stays is the summary alone.
	_, last, _ := strings.Cut(seen.String()[strings.LastIndex(seen.String(), "\r\x1b[2K"):], "\x1b[2K")
	summary := regexp.MustCompile(`^` + regexp.QuoteMeta(file) + fmt.Sprintf(`: %d created, 0 existing, 0 failed, 0 unknown \([0-9.]+ s, [0-9]+ lines/s\)\r\n$`, importLines))
	if !summary.MatchString(last) {
		t.Errorf("what stays on the screen is %q, want %v", last, summary)
	}
	eachOnce(t, api, due)
}
