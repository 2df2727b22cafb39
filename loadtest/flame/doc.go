// Package flame draws CPU profiles of Go programs as flame graphs: SVG files that stand beside the figures they explain.
//
// A flame graph (B. Gregg, "The Flame Graph", ACM Queue 14(2), 2016) shows each function as a bar as wide as its share of the samples, under
// the function that called it; functions beside each other are in order of name, not of time. Here the root is at the top. Bars are
// colored by who wrote the function, so that one sees whose cost it is. `go tool pprof -http` shows the same profile to be searched.
package flame
