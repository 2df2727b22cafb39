// Package api speaks to Carillon as a load test must: from outside, to any node that answers, noting when each answer came.
//
//   - [Import] sends a file of jobs to POST /v1/imports and records every answer line with the time it was read. An answer that is
//     cut leaves its lines unknown; lines with a key are sent again, to another node, lines without one are not.
//   - [Observer] reads every run, twice, through windows of GET /v1/runs and by id, and tells "there is no such run" from "nobody
//     could tell me".
//
// It is not the product's client: the judge's eyes must not be built by the judged.
package api
