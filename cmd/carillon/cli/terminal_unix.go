//go:build linux || darwin || freebsd

package cli

import (
	"os"
	"syscall"
	"unsafe"
)

// askTerminal reports whether f is a terminal, and its columns and rows, 0 if it does not say.
func askTerminal(f *os.File) (columns, rows int, is bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var size struct{ rows, columns, x, y uint16 } // of the kernel
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) { // fails for what is no terminal, such as /dev/null
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))) // #nosec G103 -- the kernel's interface
	})
	if err != nil || errno != 0 {
		return 0, 0, false
	}
	return int(size.columns), int(size.rows), true
}
