package holdfast.interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;
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
                return Clients.fairLock(client, r.name);
            case "read":
                return client.getReadWriteLock(r.name).readLock();
            case "write":
                return client.getReadWriteLock(r.name).writeLock();
            case "mapKey":
                return client.getMap(r.name).getLock("key");
            case "spin":
                return client.getSpinLock(r.name);
            case "multi":
                return client.getMultiLock(r.names.stream().map(client::getLock).toArray(RLock[]::new));
            case "fenced":
                return newer(client, "getFencedLock", r.name);
            case "nonReentrantFair":
                return newer(client, "getNonReentrantFairLock", r.name);
            default:
                throw new IllegalArgumentException("no kind " + kind);
        }
    }

    /** Returns a lock by reflection, since old versions have none of its kind. */
    private static RLock newer(RedissonClient client, String method, String name) {
        try {
            return (RLock) RedissonClient.class.getMethod(method, String.class).invoke(client, name);
        } catch (ReflectiveOperationException e) {
            throw new UnsupportedOperationException("this Redisson has no " + method, e);
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

    /** The permits of a semaphore. A permit is known by its ID only. */
    final class Permits implements Hold {
        private final RPermitExpirableSemaphore semaphore;

        Permits(RPermitExpirableSemaphore semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public Object call(Request r) throws Exception {
            switch (r.op) {
                case "acquire":
                    return acquire(Math.max(1, r.permits), r.lease);
                case "tryAcquire":
                    return tryAcquire(Math.max(1, r.permits), r.wait, r.lease);
                case "release":
                    release(r.ids);
                    return null;
                case "tryRelease":
                    if (r.ids.size() == 1) {
                        return semaphore.tryRelease(r.ids.get(0)) ? 1 : 0;
                    }
                    return newer("tryRelease", new Class<?>[] {List.class}, r.ids);
                case "trySetPermits":
                    return semaphore.trySetPermits(r.permits);
                case "addPermits":
                    semaphore.addPermits(r.permits);
                    return null;
                case "setPermits":
                    return newer("setPermits", new Class<?>[] {int.class}, r.permits);
                case "available":
                    return semaphore.availablePermits();
                case "acquired":
                    return newer("acquiredPermits", new Class<?>[0]);
                case "permits":
                    return newer("getPermits", new Class<?>[0]);
                case "leaseTime":
                    return newer("getLeaseTime", new Class<?>[] {String.class}, r.ids.get(0));
                default:
                    throw new IllegalArgumentException("no command " + r.op + " for a semaphore");
            }
        }

        /** Waits for permits and returns their IDs. A negative lease has no end. */
        List<?> acquire(int permits, long lease) throws Exception {
            if (permits == 1) {
                return List.of(lease < 0 ? semaphore.acquire() : semaphore.acquire(lease, TimeUnit.MILLISECONDS));
            }
            return (List<?>) newer("acquire", new Class<?>[] {int.class, long.class, TimeUnit.class},
                    permits, Math.max(-1, lease), TimeUnit.MILLISECONDS);
        }

        /** Returns the IDs of permits, or none. With a negative wait it tries once, and the lease has no end. */
        private List<?> tryAcquire(int permits, long wait, long lease) throws Exception {
            if (permits == 1) {
                String id = wait < 0 ? semaphore.tryAcquire() : semaphore.tryAcquire(wait, lease, TimeUnit.MILLISECONDS);
                return id == null ? List.of() : List.of(id);
            }
            if (wait < 0) {
                return (List<?>) newer("tryAcquire", new Class<?>[] {int.class}, permits);
            }
            return (List<?>) newer("tryAcquire", new Class<?>[] {int.class, long.class, long.class, TimeUnit.class},
                    permits, wait, lease, TimeUnit.MILLISECONDS);
        }

        /** Gives permits back. It throws if one of them is not taken. */
        void release(List<?> ids) throws Exception {
            if (ids.size() == 1) {
                semaphore.release((String) ids.get(0));
                return;
            }
            newer("release", new Class<?>[] {List.class}, ids);
        }

        /** Calls a method by reflection, since old versions do not have it. */
        private Object newer(String name, Class<?>[] types, Object... args) throws Exception {
            Method method;
            try {
                method = RPermitExpirableSemaphore.class.getMethod(name, types);
            } catch (NoSuchMethodException e) {
                throw new UnsupportedOperationException("this Redisson has no " + name + " for these arguments", e);
            }
            try {
                return method.invoke(semaphore, args);
            } catch (InvocationTargetException e) {
                throw (Exception) e.getCause();
            }
        }
    }
}
