//go:build unix

package importer

import (
	"os"
	"syscall"
)

// lockFile locks a file for this process, or fails at once. The lock ends with the process.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
