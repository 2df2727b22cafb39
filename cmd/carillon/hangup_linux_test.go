package main

import (
	"os/signal"
	"syscall"
	"testing"
)

// needHangups leaves a test out in a process that was told to ignore SIGHUP, as by nohup: then its
// commands ignore it too.
func needHangups(t *testing.T) {
	t.Helper()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("LEFT OUT: this process ignores SIGHUP, as after nohup")
	}
}

// hangUp sends SIGHUP to this process, which catches it.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func TestAHangupEndsACommand(t *testing.T) {
	needHangups(t)
	ctx, stop := withHangups(t.Context())
	defer stop()
	hangUp(t)
	<-ctx.Done()
}

func TestAHangupThatIsTakenAsksForAReload(t *testing.T) {
	needHangups(t)
	ctx, stop := withHangups(t.Context())
	defer stop()
	asked := takeHangups(ctx)
	for range 2 {
		hangUp(t)
		<-asked
	}
	if ctx.Err() != nil {
		t.Error("the command has ended")
	}
}

func TestWithoutHangupsThereIsNothingToTake(t *testing.T) {
	if asked := takeHangups(t.Context()); asked != nil {
		t.Errorf("takeHangups = %v, want nil", asked)
	}
}
