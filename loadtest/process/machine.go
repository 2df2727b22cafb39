package process

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes this machine: cores, processor, memory, system.
func Machine() string {
	line := func(file, key string) string {
		text, _ := os.ReadFile(file) // a file that is not there has no such line
		return cmp.Or(Field(string(text), key), "unknown")
	}
	memory := line("/proc/meminfo", "MemTotal")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(memory, " kB"), 10, 64); err == nil {
		memory = fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
	}
	return fmt.Sprintf("%d cores, %s, %s, %s/%s", runtime.NumCPU(), line("/proc/cpuinfo", "model name"), memory, runtime.GOOS, runtime.GOARCH)
}

// Commit names the commit in whose work tree we are, "unknown" outside of one.
func Commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(out)), " ")
}
