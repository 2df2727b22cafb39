package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// userTick is the unit of times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const userTick = 10 * time.Millisecond

// CPU returns the user and system time that a process has used.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read cpu time: %w", err)
	}
	return parseCPU(string(text))
}

// parseCPU reads utime and stime from a line of /proc/<pid>/stat (proc(5)). The name in the second field may hold
// anything, so fields are counted from the last closing parenthesis.
func parseCPU(stat string) (time.Duration, error) {
	const utime, stime = 11, 12 // 14 and 15 of proc(5), less the three before the parenthesis' end and one for counting from 0
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, fmt.Errorf("read cpu time: unreadable line %.200q", stat)
	}
	var sum time.Duration
	for _, f := range fields[utime : stime+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read cpu time: %w", err)
		}
		sum += time.Duration(n) * userTick
	}
	return sum, nil
}
