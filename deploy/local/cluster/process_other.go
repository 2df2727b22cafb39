//go:build !linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// platformError says why members cannot be run here: they live on 127.0.0.0/8 beside 127.0.0.1 and
// are told apart by /proc.
func platformError() error {
	return fmt.Errorf("local clusters need Linux, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func identify(int) (identity, State, error) { return identity{}, Stopped, platformError() }

func processAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func lock(context.Context, string) (func(), error) { return nil, platformError() }
