//go:build !(linux || darwin || freebsd)

package doctor

import "errors"

// lookAtDisk cannot tell.
func lookAtDisk(dir string) DiskFacts {
	return DiskFacts{Dir: dir, Err: errors.New("the free space is not known on this system")}
}
