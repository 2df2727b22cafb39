// Command carillon-load puts load on Carillon and judges what came of it.
//
//	carillon-load sink   --listen 127.0.0.1:9900 --out seen.ndjson
//	carillon-load gen    --n 100000 --from +20s --spread 60s --seed 1 --target http://127.0.0.1:9900 --keyed > jobs.ndjson
//	carillon-load import --api http://127.0.0.1:8081,http://127.0.0.1:8082 jobs.ndjson --acks acks.ndjson
//	carillon-load check  --asked jobs.ndjson --acks acks.ndjson --sink seen.ndjson --api http://127.0.0.1:8081 --out report.json
//	carillon-load check  --events events.ndjson --end 2026-11-21T10:00:00Z --sink seen.ndjson --api http://127.0.0.1:8081
//	carillon-load chaos  --scenario faults --jobs 100000
//	carillon-load restore
//	carillon-load bench  A C --n 200000 --rates 2000,5000 --span 30s
//	carillon-load suite  small
//	carillon-load goals  .local/bench/*.json
//	carillon-load growth .local/bench/D-carillon-[BC]-*.json --out growth.svg
//
// chaos does all of it on a cluster that it starts, breaks and stops; bench and suite measure
// systems of their own; the others work on any cluster. Results go to standard output and to files,
// progress to standard error. Exit status: 0 = fine; 1 = a promise was broken, or an import was
// left incomplete; 2 = the command itself could not do its work.
package main
