package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

// parseCPU reads utime and stime from a line of /proc/<pid>/stat (proc(5)). The name in the second
// field may hold anything, so fields are counted from the last closing parenthesis.
func parseCPU(stat string) (time.Duration, error) {
	// 14 and 15 of proc(5), less the three before the parenthesis' end and one for counting from 0
	const utime, stime = 11, 12
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

// A Meter adds up the CPU time of members over all their processes. A member that is killed keeps
// what was read last, so read shortly before a kill. It is safe for concurrent use.
type Meter struct {
	read func(pid int) (time.Duration, error)

	mu   sync.Mutex                       // guards what follows
	used map[string]map[int]time.Duration // by member and pid
}

// NewMeter returns a Meter that reads with read: CPU, except in tests.
func NewMeter(read func(pid int) (time.Duration, error)) *Meter {
	return &Meter{read: read, used: map[string]map[int]time.Duration{}}
}

// Sample reads every process of pids (by member; 0 = there is none now) and returns the sums so
// far.
func (m *Meter) Sample(pids map[string]int) map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for member, pid := range pids {
		if m.used[member] == nil {
			m.used[member] = map[int]time.Duration{}
		}
		if pid == 0 {
			continue
		}
		if t, err := m.read(pid); err == nil { // else it has just ended
			m.used[member][pid] = max(m.used[member][pid], t)
		}
	}
	sums := make(map[string]time.Duration, len(m.used))
	for member, processes := range m.used {
		for _, t := range processes {
			sums[member] += t
		}
	}
	return sums
}

// Resident returns the resident memory of a process, in bytes.
func Resident(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return parseResident(string(text))
}

// parseResident reads VmRSS from the text of /proc/<pid>/status, whose kB are KiB (proc(5)).
func parseResident(status string) (float64, error) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "VmRSS:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		if err != nil {
			return 0, fmt.Errorf("read memory: %w", err)
		}
		return kib * 1024, nil
	}
	// it has ended, and nobody has waited for it
	return 0, errors.New("read memory: the process has none")
}
