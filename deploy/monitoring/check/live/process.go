package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	readyWithin = time.Minute
	endWithin   = 15 * time.Second
)

// process is a program that was started; it dies with this one where the system can do that.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	log  string
}

// start starts a program whose output goes to a file in dir.
func start(dir, name, program string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{}), log: filepath.Join(dir, name+".log")}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = out, out, dir
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), out.Close())
	}
	go func() {
		_ = p.cmd.Wait()
		_ = out.Close()
		close(p.done)
	}()
	return p, nil
}

// ready waits until an address answers 200.
func (p *process) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		if status, err := get(ctx, url); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready within %v\n%s", p.name, readyWithin, p.tail())
		case <-p.done:
			return fmt.Errorf("%s has ended\n%s", p.name, p.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// kill ends it as a crash would.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.done
	return err
}

// stop asks it to end, and ends it if it does not.
func (p *process) stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(endWithin):
		return errors.Join(fmt.Errorf("%s did not end within %v", p.name, endWithin), p.kill())
	}
}

// tail returns the end of its log.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

func get(ctx context.Context, url string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// freePort returns a port of the loopback interface that is free now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), l.Close()
}
