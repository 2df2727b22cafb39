// Package target calls the targets of tasks.
package target
