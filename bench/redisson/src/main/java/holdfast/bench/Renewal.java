package holdfast.bench;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RedissonClient;

/** Many locks are held, and renewed by the watchdog. */
final class Renewal implements Bench.Workload {
    private static final int HANDS = 64;

    private final RedissonClient client = Bench.open();
    private final int locks = (int) Bench.number("locks");
    private volatile Throwable failure;
    private double heap;
    private long cpu;
    private long took;

    @Override
    public void prepare() throws Exception {
        long before = heap();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < HANDS; i++) {
            int first = i;
            Thread thread = new Thread(() -> take(first));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
        heap = (double) (heap() - before) / locks;
    }

    /** Takes each lock whose number is first more than a multiple of HANDS. */
    private void take(int first) {
        try {
            for (int i = first; i < locks; i += HANDS) {
                client.getLock(Bench.text("name") + ":" + i).lock();
            }
        } catch (RuntimeException e) {
            failure = e;
        }
    }

    @Override
    public void measure() throws Exception {
        long before = Report.cpu();
        long began = System.nanoTime();
        Thread.sleep(Bench.number("window"));
        cpu = Report.cpu() - before;
        took = System.nanoTime() - began;
    }

    @Override
    public Report report() {
        return new Report().put("CPU", cpu).put("Took", took).put("Heap", heap);
    }

    private static long heap() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
