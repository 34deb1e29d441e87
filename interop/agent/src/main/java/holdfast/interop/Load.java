package holdfast.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Many grants of one lock by several threads, and a counter that is safe under the lock only. Or many
 * grants of permits, and a counter of those that are taken.
 */
final class Load {
    /** What "grants" answers. */
    static final class Report {
        long grants;
        /**
         * How often "inside" was not 1 inside the lock, or others were there who must not. Of permits, how
         * often more were taken than there are.
         */
        long overlaps;
        /** How often a try has ended without the lock. */
        long refused;
        /** The longest wait for one grant, in ms. */
        long longest;
        /** The threads with the fewest and the most grants. */
        long fewest = Long.MAX_VALUE;
        long most;
        /** Each thread ends with its first error. */
        final List<String> errors = new ArrayList<>();
    }

    private final RedissonClient client;
    private final Request r;
    private final Report report = new Report();
    private final AtomicLong overlaps = new AtomicLong();
    private final AtomicLong reads = new AtomicLong();

    Load(RedissonClient client, Request r) {
        this.client = client;
        this.r = r;
    }

    Report run() throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < r.threads; i++) {
            Thread thread = new Thread(this::work, "load-" + i);
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        report.overlaps = overlaps.get();
        return report;
    }

    /** What a thread does again and again. */
    private interface Turn {
        /** Reports whether it was taken. */
        boolean take() throws Exception;

        /** Reports whether there is more to do. */
        boolean inside();

        void giveBack() throws Exception;
    }

    private void work() {
        Turn turn = r.kind.equals("semaphore") ? new PermitTurn() : new LockTurn();
        long until = r.millis > 0 ? System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(r.millis) : Long.MAX_VALUE;
        long grants = 0;
        long refused = 0;
        long longest = 0;
        String error = null;
        try {
            while (System.nanoTime() < until && (r.times == 0 || grants < r.times)) {
                long asked = System.nanoTime();
                if (!turn.take()) {
                    refused++;
                    continue;
                }
                try {
                    longest = Math.max(longest, System.nanoTime() - asked);
                    if (!turn.inside()) {
                        break;
                    }
                } finally {
                    turn.giveBack();
                }
                grants++;
            }
        } catch (Exception e) {
            error = e.toString();
        }
        synchronized (report) {
            report.grants += grants;
            report.refused += refused;
            report.longest = Math.max(report.longest, TimeUnit.NANOSECONDS.toMillis(longest));
            report.fewest = Math.min(report.fewest, grants);
            report.most = Math.max(report.most, grants);
            if (error != null) {
                report.errors.add(error);
            }
        }
    }

    private final class LockTurn implements Turn {
        private final RLock lock = Hold.lock(client, r.kind, r);

        @Override
        public boolean take() throws InterruptedException {
            if (r.wait > 0) {
                return lock.tryLock(r.wait, r.lease > 0 ? r.lease : -1, TimeUnit.MILLISECONDS);
            }
            if (r.lease > 0) {
                lock.lock(r.lease, TimeUnit.MILLISECONDS);
            } else {
                lock.lock();
            }
            return true;
        }

        @Override
        public boolean inside() {
            return Load.this.inside();
        }

        @Override
        public void giveBack() {
            lock.unlock();
        }
    }

    /** Takes one permit or several. There are r.permits, and inside counts those that are taken. */
    private final class PermitTurn implements Turn {
        private final Hold.Permits permits = new Hold.Permits(client.getPermitExpirableSemaphore(r.name));
        private List<?> ids;

        @Override
        public boolean take() throws Exception {
            ids = permits.acquire(1 + ThreadLocalRandom.current().nextInt(r.most), r.lease);
            return true;
        }

        @Override
        public boolean inside() {
            if (!r.inside.isEmpty() && client.getAtomicLong(r.inside).addAndGet(ids.size()) > r.permits) {
                overlaps.incrementAndGet();
            }
            boolean more = r.counter.isEmpty() || client.getAtomicLong(r.counter).incrementAndGet() <= r.limit;
            if (r.hold > 0) {
                LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(r.hold));
            }
            if (!r.inside.isEmpty()) {
                client.getAtomicLong(r.inside).addAndGet(-ids.size());
            }
            return more;
        }

        @Override
        public void giveBack() throws Exception {
            permits.release(ids);
        }
    }

    /** Does what is done under the lock, and reports whether there is more to do. */
    private boolean inside() {
        if (!r.readers.isEmpty() && r.kind.equals("read")) {
            return read();
        }
        if (!r.readers.isEmpty() && client.getAtomicLong(r.readers).get() != 0) {
            overlaps.incrementAndGet();
        }
        if (!r.inside.isEmpty() && client.getAtomicLong(r.inside).incrementAndGet() != 1) {
            overlaps.incrementAndGet();
        }
        boolean more = r.counter.isEmpty() || count() >= 0;
        if (r.hold > 0) {
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(r.hold));
        }
        if (!r.inside.isEmpty()) {
            client.getAtomicLong(r.inside).decrementAndGet();
        }
        return more;
    }

    /** Does what is done under the read side: nobody may be inside, and counter may not change. */
    private boolean read() {
        RBucket<String> counter = client.getBucket(r.counter, StringCodec.INSTANCE);
        client.getAtomicLong(r.readers).incrementAndGet();
        String before = counter.get();
        boolean alone = client.getAtomicLong(r.inside).get() == 0;
        LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(r.hold));
        if (!alone || !Objects.equals(before, counter.get())) {
            overlaps.incrementAndGet();
        }
        client.getAtomicLong(r.readers).decrementAndGet();
        return reads.incrementAndGet() <= r.limit;
    }

    /**
     * Reads the counter and writes it back with one more, which loses an update if two do it at a
     * time. Returns the new value, or -1 if the counter had reached the limit.
     */
    private long count() {
        RBucket<String> counter = client.getBucket(r.counter, StringCodec.INSTANCE);
        String text = counter.get();
        long value = text == null ? 0 : Long.parseLong(text);
        if (r.limit > 0 && value >= r.limit) {
            return -1;
        }
        counter.set(Long.toString(value + 1));
        return value + 1;
    }
}
