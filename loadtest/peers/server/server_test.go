package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerIsStoppedInOrder(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "ready")
	p, err := run(t.Context(), program{
		path: "/bin/sh", args: []string{"-c", `trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.02; done`},
		stop: syscall.SIGTERM, logTo: filepath.Join(dir, "log"),
		ready: func(context.Context) error { _, err := os.Stat(mark); return err },
	})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if err := syscall.Kill(p.PID, 0); err != nil {
		t.Errorf("process %d: %v, want that it runs", p.PID, err)
	}
	if err := p.end(t.Context()); err != nil {
		t.Errorf("end: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(text) != "bye\n" {
		t.Errorf("log = %q, %v, want that it ended in order", text, err)
	}
	if err := p.end(t.Context()); err == nil || !strings.Contains(err.Error(), "had ended") {
		t.Errorf("second end = %v, want that it had ended", err)
	}
}

func TestAServerThatEndsAtOnceTellsWhy(t *testing.T) {
	_, err := run(t.Context(), program{
		path: "/bin/sh", args: []string{"-c", "echo the port is taken; exit 3"}, stop: syscall.SIGTERM,
		logTo: filepath.Join(t.TempDir(), "log"), ready: func(context.Context) error { return errors.New("not yet") },
	})
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("run = %v, want the end of its log", err)
	}
}

func TestAServerThatIgnoresItsSignalIsKilled(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "ready")
	p, err := run(t.Context(), program{
		path: "/bin/sh", args: []string{"-c", `trap '' TERM; touch ready; while :; do sleep 0.02; done`},
		stop: syscall.SIGTERM, logTo: filepath.Join(dir, "log"),
		ready: func(context.Context) error { _, err := os.Stat(mark); return err },
	})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.end(ctx); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("end = %v, want that it had to be killed", err)
	}
	select {
	case <-p.Done:
	default:
		t.Error("the process still runs after its end")
	}
}
