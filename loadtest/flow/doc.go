// Package flow starts runs of workflows and judges them by what a sink saw of their steps. The bench
// of Carillon and that of its peers both use it, so both are measured alike.
//
// # What is measured
//
//	gap    = first arrival of a step − first answer to the step before it
//	missed = steps without an arrival
//	extra  = arrivals of a step beyond its first
//	early  = steps that arrived before the step before them was answered
//
// Arrivals and answers are those of one sink, so by one clock. Only an answer of 2xx ends a step.
//
// # How runs are started
//
// [Saturate] keeps a stated number of runs open: it starts another one when the sink has seen the last
// step of one. [Pace] starts runs at fixed instants, whether the answers come or not.
package flow
