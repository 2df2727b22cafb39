package process

import (
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
	s, err := ParseStat(string(text))
	return s.Self, err
}

// A Stat is what we need of /proc/<pid>/stat (proc(5)).
type Stat struct {
	Parent int
	Self   time.Duration // user and system time of the process
	Waited time.Duration // that of its children that have ended and were waited for, with theirs
}

// ParseStat reads a line of /proc/<pid>/stat. The name in the second field may hold anything, so
// fields are counted from the last closing parenthesis.
func ParseStat(line string) (s Stat, err error) {
	// 4 and 14 to 17 of proc(5), less the two before the parenthesis' end and one for counting from 0
	const ppid, utime, last = 1, 11, 14
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) <= last {
		return s, fmt.Errorf("read cpu time: unreadable line %.200q", line)
	}
	var n [last + 1]int64
	for _, i := range []int{ppid, utime, utime + 1, utime + 2, last} {
		if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return s, fmt.Errorf("read cpu time: %w", err)
		}
	}
	return Stat{int(n[ppid]), time.Duration(n[utime]+n[utime+1]) * userTick, time.Duration(n[utime+2]+n[last]) * userTick}, nil
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

// parseResident reads VmRSS from the text of /proc/<pid>/status, whose kB are KiB (proc(5)). A
// process that has ended, and that nobody has waited for, has none.
func parseResident(status string) (float64, error) {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(Field(status, "VmRSS"), " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return kib * 1024, nil
}

// Field returns the value of a line "key: value" of a file in /proc; "" if there is none.
func Field(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
