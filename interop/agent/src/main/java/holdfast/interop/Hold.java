package holdfast.interop;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** One lock of one thread: the same verbs for all kinds. */
interface Hold {
    /** Carries one verb out and returns what is to be answered. */
    Object call(Request r) throws Exception;

    static Hold of(RedissonClient client, Request r) {
        if (r.kind.equals("semaphore")) {
            return new Permits(client.getPermitExpirableSemaphore(r.name));
        }
        return new Lock(client, lock(client, r.kind, r));
    }

    static RLock lock(RedissonClient client, String kind, Request r) {
        switch (kind) {
            case "lock":
                return client.getLock(r.name);
            case "fair":
                return client.getFairLock(r.name);
            case "read":
                return client.getReadWriteLock(r.name).readLock();
            case "write":
                return client.getReadWriteLock(r.name).writeLock();
            case "spin":
                return client.getSpinLock(r.name);
            case "multi":
                return client.getMultiLock(r.names.stream().map(client::getLock).toArray(RLock[]::new));
            case "fenced":
                try {
                    // By reflection, since old versions have none.
                    return (RLock) RedissonClient.class.getMethod("getFencedLock", String.class).invoke(client, r.name);
                } catch (ReflectiveOperationException e) {
                    throw new UnsupportedOperationException("this Redisson has no fenced lock", e);
                }
            default:
                throw new IllegalArgumentException("no kind " + kind);
        }
    }

    /** A lock with an owner. */
    final class Lock implements Hold {
        private final RedissonClient client;
        private final RLock lock;

        Lock(RedissonClient client, RLock lock) {
            this.client = client;
            this.lock = lock;
        }

        @Override
        public Object call(Request r) throws Exception {
            switch (r.op) {
                case "lock":
                    // Interruptibly, so that a test can end a wait.
                    if (r.lease < 0) {
                        lock.lockInterruptibly();
                    } else {
                        lock.lockInterruptibly(r.lease, TimeUnit.MILLISECONDS);
                    }
                    return null;
                case "tryLock":
                    if (r.wait < 0) {
                        return lock.tryLock();
                    }
                    return lock.tryLock(r.wait, r.lease, TimeUnit.MILLISECONDS);
                case "unlock":
                    lock.unlock();
                    return null;
                case "forceUnlock":
                    return lock.forceUnlock();
                case "isLocked":
                    return lock.isLocked();
                case "isHeld":
                    return lock.isHeldByCurrentThread();
                case "holdCount":
                    return lock.getHoldCount();
                case "ttl":
                    return lock.remainTimeToLive();
                case "owner":
                    // As Redisson writes it into the record.
                    return client.getId() + ":" + Thread.currentThread().getId();
                case "token":
                    try {
                        return lock.getClass().getMethod("getToken").invoke(lock);
                    } catch (InvocationTargetException e) {
                        throw (Exception) e.getCause();
                    }
                default:
                    throw new IllegalArgumentException("no command " + r.op);
            }
        }
    }

    /** The permits of a semaphore that one thread has taken. The newest is given back first. */
    final class Permits implements Hold {
        private final RPermitExpirableSemaphore semaphore;
        private final Deque<String> ids = new ArrayDeque<>();

        Permits(RPermitExpirableSemaphore semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public Object call(Request r) throws Exception {
            switch (r.op) {
                case "lock":
                    String id = r.lease < 0 ? semaphore.acquire() : semaphore.acquire(r.lease, TimeUnit.MILLISECONDS);
                    ids.push(id);
                    return id;
                case "tryLock":
                    String got = r.wait < 0
                            ? semaphore.tryAcquire()
                            : semaphore.tryAcquire(r.wait, r.lease, TimeUnit.MILLISECONDS);
                    if (got != null) {
                        ids.push(got);
                    }
                    return got != null;
                case "unlock":
                    semaphore.release(ids.pop());
                    return null;
                case "holdCount":
                    return ids.size();
                case "setPermits":
                    return semaphore.trySetPermits(r.permits);
                case "available":
                    return semaphore.availablePermits();
                case "extend":
                    return semaphore.updateLeaseTime(ids.peek(), r.lease, TimeUnit.MILLISECONDS);
                default:
                    throw new IllegalArgumentException("no command " + r.op + " for a semaphore");
            }
        }
    }
}
