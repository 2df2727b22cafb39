// Package flame draws CPU profiles of Go programs as flame graphs, in SVG files.
//
// A flame graph (B. Gregg, "The Flame Graph", ACM Queue 14(2), 2016) shows each function as a bar as wide
// as its share of the samples, under its caller. Functions beside each other are in order of name, not of
// time. The root is at the top. Colors show the owner of a function. `go tool pprof -http` shows the same
// profile for searching.
package flame
