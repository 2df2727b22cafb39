//go:build linux || darwin || freebsd

package doctor

import (
	"fmt"
	"syscall"
)

// lookAtDisk asks how full the file system of a folder is.
func lookAtDisk(dir string) DiskFacts {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return DiskFacts{Dir: dir, Err: fmt.Errorf("look at the disk: %w", err)}
	}
	size := uint64(st.Bsize)                                                                    //nolint:gosec // positive
	return DiskFacts{Dir: dir, Free: uint64(st.Bavail) * size, Total: uint64(st.Blocks) * size} //nolint:gosec,unconvert // as above; its type differs by system
}
