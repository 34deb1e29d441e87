package holdfast.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Many threads that wait for one lock. Measured from its release until each has had it once. Those of a
 * fair lock come one after the other, and belong to several clients.
 */
final class Crowd implements Bench.Workload {
    private static final int LEAST_ROUNDS = 2;

    private final boolean fair;
    private final int waiters = (int) Bench.number("waiters");
    private final long hold = Bench.number("hold");
    private final long settle = Bench.number("settle");
    private final boolean interleaved = Bench.number("interleaved") == 1;
    private final List<RedissonClient> clients = new ArrayList<>();
    private final RedissonClient holder;

    private Round round;
    private long cpu;

    Crowd(boolean fair) {
        this.fair = fair;
        for (int i = 0; i < Math.max(1, Bench.number("clients")); i++) {
            clients.add(Bench.open());
        }
        holder = fair ? Bench.open() : clients.get(0);
    }

    @Override
    public void prepare() throws Exception {
        // Whole rounds: the compiler of the JVM needs some of them.
        Warmup warmup = new Warmup();
        for (int i = 0; i < LEAST_ROUNDS || !warmup.over(); i++) {
            Round warm = new Round(Bench.text("name") + ":warm-up:" + i);
            warm.gather(Math.min(settle, 200));
            warm.drain();
        }
        round = new Round(Bench.text("name"));
        round.gather(settle);
    }

    @Override
    public void measure() throws Exception {
        long before = Report.cpu();
        round.drain();
        cpu = Report.cpu() - before;
    }

    @Override
    public Report report() {
        Report report = new Report()
                .put("CPU", cpu)
                .put("Began", round.began)
                .put("Grants", round.grants)
                .put("Ends", round.ends);
        if (round.twice.get()) {
            report.problem("two held the lock at a time");
        }
        return report;
    }

    /** Each waiter has the lock once. */
    private final class Round {
        final String name;
        final RLock held;
        final long[] grants = new long[waiters];
        final long[] ends = new long[waiters];
        final List<Thread> threads = new ArrayList<>();
        final AtomicInteger inside = new AtomicInteger();
        final AtomicBoolean twice = new AtomicBoolean();
        long began;

        Round(String name) {
            this.name = name;
            this.held = lock(holder, name);
        }

        /** Has all threads wait for the lock, which the calling thread holds. */
        void gather(long settle) throws InterruptedException {
            held.lock();
            for (int i = 0; i < waiters; i++) {
                int number = i;
                RedissonClient client = clients.get(interleaved ? i % clients.size() : (int) ((long) i * clients.size() / waiters));
                Thread thread = new Thread(() -> turn(client, number), "waiter-" + i);
                thread.setDaemon(true);
                thread.start();
                threads.add(thread);
                while (fair && queued() <= i) {
                    TimeUnit.MICROSECONDS.sleep(100);
                }
            }
            // All must be parked, for some time.
            long since = System.nanoTime();
            while (System.nanoTime() - since < TimeUnit.MILLISECONDS.toNanos(settle)) {
                Thread.sleep(5);
                if (!threads.stream().allMatch(Round::parked)) {
                    since = System.nanoTime();
                }
            }
            if (inside.get() > 0 || grants[0] != 0) {
                throw new IllegalStateException("a lock was granted that is held");
            }
        }

        static boolean parked(Thread thread) {
            return thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.TIMED_WAITING;
        }

        int queued() {
            return holder.getList("redisson_lock_queue:{" + name + "}", StringCodec.INSTANCE).size();
        }

        /** Releases the lock, and returns when all have had it. */
        void drain() throws InterruptedException {
            began = System.nanoTime();
            held.unlock();
            for (Thread thread : threads) {
                thread.join();
            }
        }

        void turn(RedissonClient client, int number) {
            RLock lock = lock(client, name);
            lock.lock();
            grants[number] = System.nanoTime();
            if (inside.incrementAndGet() > 1) {
                twice.set(true);
            }
            try {
                if (hold > 0) {
                    Thread.sleep(hold);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            ends[number] = System.nanoTime();
            inside.decrementAndGet();
            lock.unlock();
        }
    }

    private RLock lock(RedissonClient client, String name) {
        return fair ? client.getFairLock(name) : client.getLock(name);
    }
}
