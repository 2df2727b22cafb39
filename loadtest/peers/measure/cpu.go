package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userTick is the unit of times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const userTick = 10 * time.Millisecond

// A stat is what we need of /proc/<pid>/stat (proc(5)).
type stat struct {
	parent int
	self   time.Duration // user and system time of the process
	waited time.Duration // that of its children that have ended and were waited for, with theirs
}

// parseStat reads a line of /proc/<pid>/stat. The name in the second field may hold anything, so fields are counted from
// the last closing parenthesis.
func parseStat(line string) (stat, error) {
	const ppid, utime, last = 1, 11, 14 // 4, 14 and 17 of proc(5), less the two before the parenthesis' end and one for counting from 0
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) <= last {
		return stat{}, fmt.Errorf("read cpu time: unreadable line %.200q", line)
	}
	var s stat
	var err error
	if s.parent, err = strconv.Atoi(fields[ppid]); err != nil {
		return stat{}, fmt.Errorf("read cpu time: %w", err)
	}
	for i, f := range fields[utime : last+1] {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("read cpu time: %w", err)
		}
		if i < 2 {
			s.self += time.Duration(ticks) * userTick
		} else {
			s.waited += time.Duration(ticks) * userTick
		}
	}
	return s, nil
}

// processes reads all there are.
func processes() (map[int]stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read cpu time: %w", err)
	}
	all := map[int]stat{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has just ended, and its parent has waited for it
		}
		if all[pid], err = parseStat(string(line)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// treeCPU returns the time that root and everything below it has used, whether it still runs or not.
func treeCPU(all map[int]stat, root int) time.Duration {
	children := map[int][]int{}
	for pid, s := range all {
		children[s.parent] = append(children[s.parent], pid)
	}
	var sum time.Duration
	for next := []int{root}; len(next) > 0; {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		sum += all[pid].self + all[pid].waited
	}
	return sum
}

// usage returns the time used so far: by servers with all below them, by this process alone.
func usage(servers map[string]int) (map[string]time.Duration, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{"client": all[os.Getpid()].self}
	for kind, pid := range servers {
		used[kind] = treeCPU(all, pid)
	}
	return used, nil
}

// perRun returns microseconds of each kind for each of n runs.
func perRun(before, after map[string]time.Duration, n int) map[string]float64 {
	cpu := map[string]float64{}
	for kind, used := range after {
		cpu[kind] = float64((used - before[kind]).Microseconds()) / float64(max(n, 1))
	}
	return cpu
}
