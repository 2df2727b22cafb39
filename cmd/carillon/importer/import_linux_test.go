package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// slowly is a proxy of a node that holds back answers after so many bytes, until on is closed.
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

// On a terminal an import shows a bar that fills, and then the summary in its place.
func TestImportDrawsABarOnATerminal(t *testing.T) {
	api := clitest.StartNode(t)
	due := importDue()
	file := writeImport(t, true, due)
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	url := slowly(t, api, 2*cutAfter, goOn)
	t.Cleanup(release) // before the node's proxy is waited for

	user, program := clitest.OpenTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "import", "--api", url, "--parallel", "1", file)
	cmd.Env = append(os.Environ(), clitest.MainEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	// if this program dies, the terminal's end ends it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the program has its own: the terminal ends with it
	seen := clitest.NewScreen()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(seen, user)
		read <- err
	}()
	partly := regexp.MustCompile(`\r\x1b\[2K█+░+ +[1-9][0-9]?%, [1-9][0-9]* lines, [0-9]+/s, [0-9hms]+ left`)
	seen.Await(t, partly)
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
	// The last bar is erased; only the summary stays.
	_, last, _ := strings.Cut(seen.String()[strings.LastIndex(seen.String(), "\r\x1b[2K"):], "\x1b[2K")
	summary := regexp.MustCompile(`^` + regexp.QuoteMeta(file) + fmt.Sprintf(`: %d created, 0 existing, 0 failed, 0 unknown \([0-9.]+ s, [0-9]+ lines/s\)\r\n$`, importLines))
	if !summary.MatchString(last) {
		t.Errorf("what stays on the screen is %q, want %v", last, summary)
	}
	eachOnce(t, api, due)
}
