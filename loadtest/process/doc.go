// Package process starts and measures processes for load tests: carillon-load itself as a sink or a judge, and the CPU
// time that any process has used.
package process
