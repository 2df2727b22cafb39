// Package process starts processes for load tests, waits until they are ready, stops them, and
// measures the CPU time and memory of any process.
package process
