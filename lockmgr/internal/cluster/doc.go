// Package cluster knows which server is which node of a cluster, and which master serves which
// slot. The package sends commands by package wire, and knows no locks.
//
//	wire.Lanes ──▶ Node: the master of a lane ─────────────┐
//	     │                                                 ▼
//	     └───────▶ Nodes: any master, by MOVED and ASK ──▶ wire.Redis ──▶ client ──▶ node
//	                 ▲
//	                 └── Layout: CLUSTER SLOTS of some nodes
//
// Nobody but the nodes knows the layout of the cluster, and any address may come to belong to a
// node of another cluster. So an answer to CLUSTER SLOTS counts only if at least half of the known
// shards are in the answer: see Nodes.Layout for clusters that lose most masters or are replaced.
// From the layout comes the ID of the node that a script means. At another node the script does
// nothing: see wire.Redis. So a layout that is out of date costs a round trip, and no lock.
//
// # Files
//
// Each file uses only files below its own line. A test in internal/archtest checks the order.
//
//	redirect.go  follows MOVED and ASK
//	node.go      sends to one node of a cluster
//	look.go      looks which master serves which slot
//	nodes.go     the nodes of a cluster, and which node answers at an address
//	seeds.go     which addresses belong to one cluster
//	layout.go    reads which master serves which slot
package cluster
