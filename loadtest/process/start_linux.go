package process

import "syscall"

// childAttributes keep Ctrl-C in the terminal away from a child, which its parent stops, and let it
// die with the thread that starts it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
