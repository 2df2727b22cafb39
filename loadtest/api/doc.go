// Package api speaks to Carillon from outside, to any node that answers, and notes when each answer
// came.
//
//   - [Ask] makes one request; all load tools use it.
//   - [Import] sends a file of jobs to POST /v1/imports and records every answer with the time it
//     was read. A cut answer leaves its lines unknown: lines with a key are sent again, to another
//     node.
//   - [Observer] reads every run twice, through windows of GET /v1/runs and by id. It tells "there
//     is no such run" from "no node answers". [Histories] does the same for recurring jobs.
//
// It shares no code with the product's client: the system must not build its judge's eyes. So the
// importer of cmd/carillon, which also resumes, is another one: it keeps state files for users, and
// this one evidence for the judge.
package api
