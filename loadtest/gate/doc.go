// Package gate compares the benchmarks of the hot paths with the figures committed in figures.json, so
// that a slower one is noticed. It builds the test binaries of the product's packages and reads their
// output.
//
// # Rules
//
//	figure       from                                   passes if
//	statements   tests named TestStatements…            exactly as committed
//	allocations  an operation                           not more; with several goroutines 2 % or one more
//	time         ns an operation ÷ ns of a calibration  at most twice the committed ratio
//	             loop around each of several short
//	             runs on one processor; the best counts
//
// A figure that is missing on either side fails. Worse allocations or times are measured up to three
// times more before they fail. What is better by more than 5 % (allocations) or half (time) passes and
// says so: `make bench-gate UPDATE=1` writes the figures anew.
package gate
