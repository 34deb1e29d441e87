// Bench measures what a lock costs when a thousand callers wait for it, and when nobody waits. It
// compares holdfast with other clients, with other ways of waking waiters, and with ceilings, all
// on the same server in one run.
//
//	go run ./bench              a short version of all
//	go run ./bench all -out DIR the full one, with results.json, report.html and charts
//	go run ./bench fanout       one of fanout, processes, uncontended, renewal, idle, release, turns, kinds
//	go run ./bench compare OLD.json NEW.json
//
// README.md has the method and the figures of a full run.
//
// # The design
//
//	main ── plan ──▶ runner ── one process a measurement ──▶ internal/measure
//	                   │  ▲ one line of JSON                    │
//	                   │  └──────────────────────────────────── ┤ internal/locker: the candidates
//	                   ▼                                        │ worker processes, where it takes several
//	         internal/result ──▶ internal/report                │ a JVM with Redisson (redisson)
//	         medians, ratios     table, charts, page            ▼
//	                                                      child redis-server (internal/server)
//
// Each measurement is its own process. Its CPU, heap and goroutines are those of the candidate
// alone, and a measurement that hangs is killed without harm to the others. Candidates alternate, A
// B C, A B C, so that other load on the machine affects all alike. Ratios are formed within one
// repetition.
//
// No process outlives a run. Measurements and workers end when their standard input closes. The
// server is a child process that the run kills. Every wait has a deadline.
package main
