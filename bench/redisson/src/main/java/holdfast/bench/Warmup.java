package holdfast.bench;

import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;

/**
 * Says how long a workload must run before it is measured: for the time "warm", and on until the
 * compilers of the JVM have little to do, but not for longer than five times as long.
 */
final class Warmup {
    private static final long WINDOW = TimeUnit.SECONDS.toNanos(2);
    /** Compilers that run for less than this part of the time have little to do. */
    private static final double LITTLE = 0.1;

    private final long began = System.nanoTime();
    private final long least = TimeUnit.MILLISECONDS.toNanos(Bench.number("warm"));
    private long since = began;
    private long before = compiled();
    private boolean idle;

    /** Reports whether the workload has run for long enough. To be called again and again. */
    boolean over() {
        long now = System.nanoTime();
        if (now - since >= WINDOW) {
            long compiled = compiled();
            idle = compiled - before < LITTLE * (now - since);
            since = now;
            before = compiled;
        }
        return now - began >= least && (idle || least < WINDOW) || now - began >= 5 * least;
    }

    private static long compiled() {
        return TimeUnit.MILLISECONDS.toNanos(ManagementFactory.getCompilationMXBean().getTotalCompilationTime());
    }
}
