package holdfast.interop;

import com.google.gson.Gson;
import com.google.gson.JsonSyntaxException;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import org.redisson.api.RedissonClient;

/**
 * Takes Redisson's locks as told on standard input, for the tests of the Go package that starts it.
 *
 * <p>Each line is a {@link Request} as JSON, and has one answer: a line with the id of the request,
 * and either "value" or "error" (the simple name of the exception's class) and "message". The first
 * line on standard output has the id 0 and says that the agent reads commands.
 *
 * <p>A Redisson lock belongs to a client and a thread. So each thread that a request names is a Java
 * thread of its own with its own queue. Commands of one thread run in order, those of different
 * threads overlap, and answers come as commands end.
 *
 * <p>The agent ends when standard input does. It then releases nothing. What Redisson logs goes to
 * standard error.
 */
public final class Agent {
    private static final Gson GSON = new Gson();

    private final PrintStream out;
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new HashMap<>();

    private Agent(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        // Standard output has answers only, whatever a library prints.
        System.setOut(System.err);
        try {
            new Agent(out).run();
        } finally {
            // Not exit: threads that wait for locks must not delay the end.
            Runtime.getRuntime().halt(0);
        }
    }

    private void run() throws IOException {
        answer(0, "ready", null);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Request r = null;
            try {
                r = GSON.fromJson(line, Request.class);
            } catch (JsonSyntaxException e) {
                // As for an empty line, r is null.
            }
            if (r == null || r.op == null) {
                System.err.println("agent: not a command: " + line);
                continue;
            }
            if (r.op.equals("interrupt")) {
                // It must reach a thread that is busy, so it does not join its queue.
                worker(r.thread).interrupt();
                answer(r.id, null, null);
                continue;
            }
            if (r.op.equals("state")) {
                answer(r.id, worker(r.thread).state(), null);
                continue;
            }
            worker(r.thread).add(r);
        }
    }

    private Worker worker(String thread) {
        return workers.computeIfAbsent(thread, name -> Worker.start(name, this));
    }

    /** Carries a request out on the worker's thread, and answers. */
    void serve(Worker worker, Request r) {
        try {
            answer(r.id, result(worker, r), null);
        } catch (ExecutionException e) {
            answer(r.id, null, e.getCause());
        } catch (Exception | LinkageError e) {
            answer(r.id, null, e);
        }
    }

    private Object result(Worker worker, Request r) throws Exception {
        switch (r.op) {
            case "open":
                RedissonClient opened = Clients.open(r);
                if (clients.putIfAbsent(r.client, opened) != null) {
                    opened.shutdown();
                    throw new IllegalArgumentException("client " + r.client + " is open");
                }
                return opened.getId();
            case "close":
                client(r).shutdown();
                clients.remove(r.client);
                worker.forget(r.client);
                return null;
            case "grants":
                return new Load(client(r), r).run();
            default:
                return worker.hold(client(r), r).call(r);
        }
    }

    private RedissonClient client(Request r) {
        RedissonClient client = clients.get(r.client);
        if (client == null) {
            throw new IllegalArgumentException("no client " + r.client);
        }
        return client;
    }

    private void answer(long id, Object value, Throwable error) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", id);
        if (error != null) {
            line.put("error", error.getClass().getSimpleName());
            line.put("message", String.valueOf(error.getMessage()));
        } else {
            line.put("value", value);
        }
        String text = GSON.toJson(line);
        synchronized (out) {
            out.println(text);
        }
    }
}
