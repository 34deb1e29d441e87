// Package goredis makes a lock manager from the options of a go-redis client.
//
//	opt, err := redis.ParseURL("redis://locker:secret@redis.example:6379/2")
//	if err != nil {
//		return err
//	}
//	mgr, err := goredis.Dial(opt, lockmgr.Options{})
//
// [Dial] takes *redis.Options, *redis.ClusterOptions, *redis.FailoverOptions and
// *redis.UniversalOptions. The manager opens connections of its own. It shares neither connections
// nor pools with a go-redis client.
//
// # What becomes of each field
//
// Each field is translated, or refused with an error if it is set, or dropped.
//
// Translated:
//
//	Addr, Addrs, SentinelAddrs, Network     where to connect; unix sockets too
//	Username, Password                      the user of each connection; as in go-redis, a
//	                                        Username without a Password has no effect
//	CredentialsProvider                     asked for each new connection
//	CredentialsProviderContext              the same; it takes precedence
//	DB                                      not with a cluster, which has no databases
//	TLSConfig                               for Sentinels, too
//	Dialer                                  is called with the network and the address; as in
//	                                        go-redis, TLSConfig then has no effect
//	DialTimeout                             zero means 2 s here, and 5 s in go-redis
//	Protocol                                2 or 3; below 2 means 3
//	ClientName                              for Sentinels, too
//	DisableIdentity, DisableIndentity       no CLIENT SETINFO
//	IdentitySuffix                          in the library name of CLIENT SETINFO
//	MasterName                              the master that the Sentinels name
//	SentinelUsername, SentinelPassword      the user of connections to Sentinels, likewise
//	ClusterStateReloadInterval              zero means 10 s here, and 60 s in go-redis
//
// Refused:
//
//	StreamingCredentialsProvider  the client can't authenticate an open connection again
//	OnConnect                     takes a connection of go-redis
//	Limiter                       would not see the commands of the manager
//	NewClient, ClusterSlots       replace parts of go-redis' cluster client
//	ReplicaOnly                   a replica grants no locks
//
// Some combinations are refused as well: a DB other than 0 with a cluster, ReadOnly with MasterName
// in UniversalOptions, which means ReplicaOnly there, and a provider of credentials with Sentinels,
// because the client would send its credentials to the Sentinels, too.
//
// Dropped, because lockmgr.Options has the limits of commands and waits:
//
//	ReadTimeout, WriteTimeout        Options.CommandTimeout, 2 s by default
//	ContextTimeoutEnabled            a context always ends a wait; no context ends a command
//	MaxRetries, MinRetryBackoff, MaxRetryBackoff, MaxRedirects, DialerRetries,
//	DialerRetryTimeout, DialerRetryBackoff
//	                                 Options.RetryTime, 5 s by default
//	PoolTimeout                      there is no pool: requests wait in the manager
//
// The other fields are dropped, too. They tune pools, buffers, pipelines, caches, and the choice of
// a node for reads. A manager has a few connections, sends each command to the master and keeps
// nothing in a cache. IsClusterMode is not needed, because Dial sees whether a server is part of a
// cluster.
package goredis
