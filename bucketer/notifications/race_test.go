//go:build race

package notifications_test

// failures is that of a storm; the race detector makes it ten times as slow.
const failures = 20_000
