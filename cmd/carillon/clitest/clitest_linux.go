package clitest

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// OpenTerminal makes a pseudo-terminal and returns what its user sees and types, and the program's
// side.
func OpenTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("make a pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() }) // the test may have closed it
	var locked, number int32
	Control(t, user, syscall.TIOCSPTLCK, &locked)
	Control(t, user, syscall.TIOCGPTN, &number)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open the program's side of the terminal: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return user, program
}

// Control does an ioctl that takes a number.
func Control(t *testing.T, f *os.File, request uintptr, number *int32) {
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

// Screen is what was shown on a terminal so far.
type Screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	shown chan struct{} // signals more output
}

func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.shown <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Await waits until what was shown matches.
func (s *Screen) Await(t *testing.T, what *regexp.Regexp) {
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

// NewScreen makes a screen that shows nothing yet.
func NewScreen() *Screen { return &Screen{shown: make(chan struct{}, 1)} }
