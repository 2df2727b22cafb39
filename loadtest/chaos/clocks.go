package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The wall clock of one process cannot be set from outside: time namespaces leave it alone, and Go
// asks the kernel past the C library. So the nodes of WrongClock and AlertsClock are built with a
// runtime whose wall clock is ahead of the kernel's by what stands in a file, which they look at
// all the time. The monotonic clock is as ever. It is `go build -overlay` that replaces the files;
// the source of the program stays.

// ActClock sets the clock of a node ahead.
const ActClock Act = "set the clock ahead"

// clockFile is beside the configuration of a node: by how much its clock is ahead, a duration.
const clockFile = "clock"

// The files of an overlay. realNow is what the runtime's assembly calls time·now otherwise.
const (
	clockRuntime = `//go:build !faketime && linux && amd64

package runtime

import _ "unsafe"

//go:linkname clockAhead
var clockAhead int64 // in ns

func clockReal() (sec int64, nsec int32, mono int64)

//go:linkname time_now time.now
func time_now() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = clockReal()
	if clockAhead == 0 {
		return sec, nsec, mono
	}
	ns := sec*1000000000 + int64(nsec) + clockAhead
	return ns / 1000000000, int32(ns % 1000000000), mono
}
`
	clockMain = `package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	_ "unsafe"
)

//go:linkname clockAhead runtime.clockAhead
var clockAhead int64

func init() {
	for i, arg := range os.Args[:max(len(os.Args)-1, 0)] {
		if arg == "--config" {
			go follow(filepath.Join(filepath.Dir(os.Args[i+1]), "` + clockFile + `"))
		}
	}
}

func follow(path string) {
	for {
		if text, err := os.ReadFile(path); err == nil {
			if d, err := time.ParseDuration(strings.TrimSpace(string(text))); err == nil {
				atomic.StoreInt64(&clockAhead, int64(d))
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
`
	clockAsm, realNow = "TEXT time·now<ABIInternal>", "TEXT runtime·clockReal<ABIInternal>"
)

// ClocksAvailable is nil where nodes can have clocks of their own; else it says what is missing.
func ClocksAvailable() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return errors.New("clocks of their own need linux on amd64: the runtime's files that are replaced are of that")
	}
	return nil
}

// buildClocked builds carillon with a clock that can be set, and has the cluster run it.
func (r *run) buildClocked(ctx context.Context) error {
	top, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	root, err := output(ctx, top, "go", "env", "GOROOT")
	if err != nil {
		return fmt.Errorf("find the runtime: %w", err)
	}
	dir, err := emptyDir(filepath.Join(r.cfg.Dir, "clocked"))
	if err != nil {
		return err
	}
	asm := filepath.Join(root, "src", "runtime", "time_linux_amd64.s")
	text, err := os.ReadFile(asm) // #nosec G304 -- of the Go installation
	if err != nil {
		return fmt.Errorf("read the runtime: %w", err)
	}
	if strings.Count(string(text), clockAsm) != 1 {
		return fmt.Errorf("%s does not define time.now as expected: this version of Go needs another overlay", asm)
	}
	replace := map[string]string{}
	for path, content := range map[string]string{
		asm: strings.Replace(string(text), clockAsm, realNow, 1),
		filepath.Join(root, "src", "runtime", "timeasm.go"):      clockRuntime,
		filepath.Join(top, "cmd", "carillon", "clock_follow.go"): clockMain,
	} {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			return fmt.Errorf("write overlay: %w", err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(r.cfg.Dir, "carillon-clocked")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	r.log.Info("building", "program", "with a clock that can be set")
	if _, err := output(ctx, top, "go", "build", "-trimpath", "-buildvcs=false", "-overlay", file, "-ldflags", "-checklinkname=0", "-o", program, "./cmd/carillon"); err != nil {
		return fmt.Errorf("build carillon with a clock that can be set: %w", err)
	}
	r.cfg.Cluster.Program = program
	return nil
}

// clockActs are the acts on clocks.
var clockActs = acts{
	// The member of a step is a node and a duration: "carillon-2 to 1.5s".
	ActClock: func(_ context.Context, r *run, text string) (note string, err error) {
		member, ahead, _ := strings.Cut(text, toWord)
		if _, err := time.ParseDuration(ahead); err != nil {
			return "", fmt.Errorf("set clock: %w", err)
		}
		path := filepath.Join(r.cfg.Dir, "cluster", member, clockFile)
		return "", errors.Join(os.WriteFile(path+".new", []byte(ahead), 0o600), os.Rename(path+".new", path))
	},
}
