package holdfast.bench;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Runs one workload of the bench with Redisson, and measures it.
 *
 * <p>The arguments are the workload as key=value. The program prepares the workload and prints "{}". At
 * the first line on standard input it runs the measured stretch, and prints "{}" at its end, and then a
 * {@link Report}. An error is a line of JSON with "Error". The program ends when standard input does.
 */
public final class Bench {
    /** What a workload does. */
    interface Workload {
        /** Does all that is not measured. */
        void prepare() throws Exception;

        /** Runs the measured stretch. */
        void measure() throws Exception;

        /** Ends the workload, and returns what was measured. */
        Report report() throws Exception;
    }

    private static final Map<String, String> ARGUMENTS = new HashMap<>();

    private Bench() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        // Standard output has answers only, whatever a library prints.
        System.setOut(System.err);
        for (String arg : args) {
            String[] pair = arg.split("=", 2);
            ARGUMENTS.put(pair[0], pair[1]);
        }
        CountDownLatch go = new CountDownLatch(1);
        Thread input = new Thread(() -> read(go), "input");
        input.setDaemon(true);
        input.start();
        try {
            Workload workload = workload();
            workload.prepare();
            out.println("{}");
            go.await();
            workload.measure();
            out.println("{}");
            out.println(workload.report().json());
        } catch (Throwable e) {
            e.printStackTrace();
            out.println("{\"Error\":" + Report.quote(e.toString()) + "}");
        }
        new CountDownLatch(1).await();
    }

    /** Reads standard input to its end, and then ends the program. It releases nothing. */
    private static void read(CountDownLatch go) {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            while (in.readLine() != null) {
                go.countDown();
            }
        } catch (IOException e) {
            // The bench has gone.
        }
        Runtime.getRuntime().halt(0);
    }

    private static Workload workload() {
        String name = ARGUMENTS.get("workload");
        switch (name) {
            case "fanout":
            case "fair":
                return new Crowd(name.equals("fair"));
            case "uncontended":
                return new Pairs();
            case "renewal":
                return new Renewal();
            default:
                throw new IllegalArgumentException("no workload " + name);
        }
    }

    /** Opens a client with Redisson's defaults, except for the lease of locks if there is one. */
    static RedissonClient open() {
        Config config = new Config();
        if (number("lease") > 0) {
            config.setLockWatchdogTimeout(number("lease"));
        }
        config.useSingleServer().setAddress("redis://" + text("addr"));
        return Redisson.create(config);
    }

    static String text(String key) {
        String value = ARGUMENTS.get(key);
        if (value == null) {
            throw new IllegalArgumentException("no " + key);
        }
        return value;
    }

    /** Returns an argument that is a number. Times are in milliseconds. */
    static long number(String key) {
        return Long.parseLong(text(key));
    }
}
