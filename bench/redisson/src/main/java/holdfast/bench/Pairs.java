package holdfast.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Threads that lock and unlock again and again, each a name of its own. */
final class Pairs implements Bench.Workload {
    private enum Phase {
        WARMING,
        MEASURING,
        OVER
    }

    private final RedissonClient client = Bench.open();
    private final List<Caller> callers = new ArrayList<>();
    private volatile Phase phase = Phase.WARMING;
    private volatile Throwable failure;
    private long cpu;
    private long took;

    @Override
    public void prepare() throws Exception {
        for (int i = 0; i < Bench.number("goroutines"); i++) {
            Caller caller = new Caller(client.getLock(Bench.text("name") + ":" + i));
            callers.add(caller);
            caller.thread.start();
        }
        for (Warmup warmup = new Warmup(); !warmup.over() && failure == null; ) {
            Thread.sleep(10);
        }
    }

    @Override
    public void measure() throws Exception {
        long before = Report.cpu();
        long began = System.nanoTime();
        phase = Phase.MEASURING;
        Thread.sleep(Bench.number("window"));
        phase = Phase.OVER;
        took = System.nanoTime() - began;
        cpu = Report.cpu() - before;
    }

    @Override
    public Report report() throws Exception {
        long[] all = new long[0];
        for (Caller caller : callers) {
            caller.thread.join();
            int had = all.length;
            all = Arrays.copyOf(all, had + caller.count);
            System.arraycopy(caller.times, 0, all, had, caller.count);
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
        if (all.length == 0) {
            throw new IllegalStateException("no pair in the window");
        }
        Arrays.sort(all);
        return new Report()
                .put("CPU", cpu)
                .put("Took", took)
                .put("Pairs", (long) all.length)
                .put("P50", all[all.length / 2])
                .put("P99", all[(int) (all.length * 0.99)]);
    }

    private final class Caller {
        private final RLock lock;
        private final Thread thread = new Thread(this::run);
        private long[] times = new long[1 << 16];
        private int count;

        Caller(RLock lock) {
            this.lock = lock;
            thread.setDaemon(true);
        }

        private void run() {
            try {
                while (phase != Phase.OVER && failure == null) {
                    long began = System.nanoTime();
                    lock.lock();
                    lock.unlock();
                    long took = System.nanoTime() - began;
                    if (phase == Phase.MEASURING) {
                        if (count == times.length) {
                            times = Arrays.copyOf(times, 2 * count);
                        }
                        times[count++] = took;
                    }
                }
            } catch (RuntimeException e) {
                failure = e;
            }
        }
    }
}
