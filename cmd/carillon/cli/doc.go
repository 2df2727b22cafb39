// Package cli holds what the commands of carillon share: exit codes, reports of errors, flags that
// state a time, the API that client commands ask, tables and JSON, and the terminal.
//
//	command.go   the program, its exit codes, how an error is reported
//	flags.go     flags of a wrong type, flags that state times, completion of values
//	remote.go    --api, --tenant and --output; a client of the API for a command
//	output.go    tables, JSON, long lists, text that is safe for a terminal
//	terminal.go  whether there is a terminal, its width, progress bars
//	config.go    the logger and the store that a node's configuration describes
//
// Exit codes: 0 success, 1 failure, 2 a command line that makes no sense; 3 what was waited for was
// cancelled, or missed. `carillon doctor` has its own: 1 warnings, 2 errors.
package cli
