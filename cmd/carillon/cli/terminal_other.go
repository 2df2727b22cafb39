//go:build !(linux || darwin || freebsd)

package cli

import "os"

// askTerminal takes every character device for a terminal, of unknown size.
func askTerminal(f *os.File) (columns, rows int, is bool) {
	info, err := f.Stat()
	return 0, 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
