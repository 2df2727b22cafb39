// Package node wires the parts of a node together, starts them in order, and stops them in the
// opposite order, each step bounded. Two nodes can live in one process.
//
// The order of a start: listen (healthy, not ready, every other request refused with 503), wait for
// the store, wait for the queue, then ring, bucketer, dispatcher and executor, then serve. The
// order of a stop: not ready, dispatcher and executor (the executor drains), ring (leave, then go),
// API, queue, store.
package node
