//go:build !linux

package process

import "syscall"

// childAttributes: clusters need Linux, so nothing is ever started here.
func childAttributes() *syscall.SysProcAttr { return nil }
