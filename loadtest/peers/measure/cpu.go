package measure

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"carillon.dev/carillon/loadtest/process"
)

// processes reads all there are.
func processes() (map[int]process.Stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read cpu time: %w", err)
	}
	all := map[int]process.Stat{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has just ended, and its parent has waited for it
		}
		if all[pid], err = process.ParseStat(string(line)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// treeCPU returns the time that root and everything below it has used, whether it still runs or not.
func treeCPU(all map[int]process.Stat, root int) time.Duration {
	children := map[int][]int{}
	for pid, s := range all {
		children[s.Parent] = append(children[s.Parent], pid)
	}
	var sum time.Duration
	for next := []int{root}; len(next) > 0; {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		sum += all[pid].Self + all[pid].Waited
	}
	return sum
}

// usage returns the time used so far: by servers with all below them, by this process alone.
func usage(servers map[string]int) (map[string]time.Duration, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{"client": all[os.Getpid()].Self}
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
