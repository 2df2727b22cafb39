//go:build !(linux || darwin || freebsd)

package main

import "os"

// terminalWidth returns 0: how wide a terminal is cannot be asked in this way.
func terminalWidth(*os.File) int { return 0 }
