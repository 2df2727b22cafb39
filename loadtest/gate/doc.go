// Package gate compares the benchmarks of the hot paths with the figures that were committed in figures.json, so that nobody
// makes them slower without noticing. It builds the test binaries of the product's packages and reads what they print.
//
// # Rules
//
//  1. Statements, which tests of the name TestStatements… tell as attributes: exactly as committed. Fewer is a difference
//     too, and is committed with what brought it.
//  2. Allocations an operation: not more than committed. Where goroutines meet, 2 % or one allocation more.
//  3. Time: nanoseconds an operation divided by those of a calibration loop that runs before and after each of several short
//     runs on one processor; the best of each counts. Not more than twice the committed ratio.
//  4. What is missing on either side fails.
//
// What is worse in allocations or time is measured up to three times more before it fails. What is better by more than 5 %
// (allocations) or half (time) passes and says so: `make bench-gate UPDATE=1` writes the figures anew.
package gate
