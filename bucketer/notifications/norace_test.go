//go:build !race

package notifications_test

// failures is that of a storm.
const failures = 100_000
