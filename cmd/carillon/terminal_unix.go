//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalWidth returns the columns of a terminal, 0 if it does not say.
func terminalWidth(f *os.File) int {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	var size struct{ rows, columns, x, y uint16 } // of the kernel
	err = raw.Control(func(fd uintptr) {
		// One that fails leaves the size 0.
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))) // #nosec G103 -- the kernel's interface
	})
	if err != nil {
		return 0
	}
	return int(size.columns)
}
