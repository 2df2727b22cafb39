package main

import (
	"syscall"
	"testing"
)

// hangUp sends SIGHUP to this process, which catches it.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func TestAHangupEndsACommand(t *testing.T) {
	ctx, stop := withHangups(t.Context())
	defer stop()
	hangUp(t)
	<-ctx.Done()
}

func TestAHangupThatIsTakenAsksForAReload(t *testing.T) {
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
