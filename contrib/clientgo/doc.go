// Package clientgo elects a leader with the leaderelection package of Kubernetes' client-go, by a
// lock on Redis or Valkey instead of a Lease object. It needs no Kubernetes API server, and creates
// no load on one.
//
//	import holdfastclientgo "github.com/holdfast-go/holdfast/contrib/clientgo"
//
//	lock, err := holdfastclientgo.New(mgr, "leader:billing", identity)
//	if err != nil {
//		return err
//	}
//	leaderelection.RunOrDie(lock.UntilLost(ctx), leaderelection.LeaderElectionConfig{Lock: lock, …})
//
// # With controller-runtime
//
// controller-runtime takes a [Lock] as LeaderElectionResourceLockInterface of its manager.Options.
// The manager gives its elector a context of its own, which does not end with that of Start before
// everything else has. So the context of [Lock.UntilLost] goes to Start. After a loss it ends the
// contexts of all controllers at once:
//
//	options.LeaderElection = true
//	options.LeaderElectionResourceLockInterface = lock
//	controllers, err := ctrl.NewManager(config, options)
//	if err != nil {
//		return err
//	}
//	// ... set up the controllers
//	ctx = lock.UntilLost(ctx)
//	err = controllers.Start(ctx) // nil after a loss, too
//	if lost := context.Cause(ctx); errors.Is(lost, lockmgr.ErrLeaseLost) {
//		return lost // end the process: another one may lead
//	}
//	return err
//
// Start waits for controllers that do not end with their context, for GracefulShutdownTimeout at
// most. This was tried with controller-runtime v0.25.2. A manager can't be started again.
//
// # What the elector's times mean
//
// The elector calls Update every RetryPeriod. Update returns nil only after the server has
// confirmed that the lock stays held for LeaseDuration from then on. LeaseDuration is counted in
// whole seconds and must be one at least. An elector that can't reach the server gives up within
// RetryPeriod and RenewDeadline after its last successful Update. Make LeaseDuration longer than
// both together, and it gives up before another one can lead.
//
// With ReleaseOnCancel the elector gives the lock back as soon as its context ends, while
// OnStartedLeading may still run: end that work first.
//
// The server may lose the lock: it restarts without its data, fails over to a replica that lacks
// the last writes, or somebody removes the key. The elector does not hear of that. It would lead
// until RenewDeadline, perhaps beside another leader. So give it the context of [Lock.UntilLost],
// which ends as soon as the manager notices, and always when the lease ends. Writes that carry
// [Lock.Token] are safe even while two processes believe that they lead.
//
// A term is one hold of the lock. After a loss, [Lock.Update] fails until the elector has stopped
// leading.
//
// # What differs from a Lease object
//
// LeaderTransitions of a record is the fencing token of its term. The identity of another leader is
// known one to two seconds after its election, because its manager writes the note of the lock
// about a second after the grant. A leader that is no client of this package, or whose manager is
// anonymous, appears by its holder ID in Redis. Coordinated leader election
// (LeaderElectionConfig.Coordinated) is not supported: it needs objects of Kubernetes.
package clientgo
