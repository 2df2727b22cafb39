// Package measure holds the protocols by which peers of Carillon are measured, and judges what came of them. They are
// protocols A to C, and W, of `carillon-load bench`, and a [Result] has the field names of its results.
//
//	A  burn-down: n runs that are ready when the first consumer starts
//	B  n runs at one instant
//	C  n runs spread evenly at random over a span
//	W  chains of five steps: as many as can be, or at a rate; started and judged by package flow, as Carillon's
//
// # What is measured
//
// The handler notes the instant of every start. Where it calls the sink, the sink's record tells of arrivals as well, and
// lateness, missed, early and doubled are those of arrivals, as for Carillon; those of handlers stand beside them. A run
// that began early has lateness 0 and counts as early.
//
// A burn-down is over when the peer's own store holds no unfinished run. CPU is user and system time of each server with
// all its processes, of this process ("client": consumers, handlers and, in small part, the measuring itself) and of the
// sink, from just before the first due instant (A: the start of the consumers) to the end.
//
// # In doubt for the peer
//
// Runs of a burn-down are inserted ready, so a peer needs no scheduler for them. Servers are reached by Unix sockets where
// they have them. Tables are analyzed after the insertion. A peer is warm before it is measured.
package measure
