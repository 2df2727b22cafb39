//go:build !(linux || darwin || freebsd)

package main

import "os"

// askTerminal takes every character device for a terminal, and does not know its columns: neither can be asked in the way of Unix.
func askTerminal(f *os.File) (columns int, is bool) {
	info, err := f.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
