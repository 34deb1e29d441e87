package holdfast.interop;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.redisson.api.RedissonClient;

/** A thread with a queue of requests. Redisson takes it for one owner of each client. */
final class Worker {
    private final BlockingQueue<Request> queue = new LinkedBlockingQueue<>();
    private final Map<String, Hold> holds = new HashMap<>(); // used by the thread only
    private Thread thread;

    private Worker() {}

    static Worker start(String name, Agent agent) {
        Worker worker = new Worker();
        worker.thread = new Thread(() -> worker.run(agent), name);
        worker.thread.setDaemon(true);
        worker.thread.start();
        return worker;
    }

    void add(Request r) {
        queue.add(r);
    }

    void interrupt() {
        thread.interrupt();
    }

    String state() {
        return thread.getState().name();
    }

    /**
     * Returns the lock of a request. A worker has one object for a lock, as code has that calls
     * getLock once, locks and unlocks.
     */
    Hold hold(RedissonClient client, Request r) {
        return holds.computeIfAbsent(r.client + "\n" + r.kind + "\n" + r.name + "\n" + r.names, k -> Hold.of(client, r));
    }

    void forget(String client) {
        holds.keySet().removeIf(k -> k.startsWith(client + "\n"));
    }

    private void run(Agent agent) {
        for (;;) {
            try {
                agent.serve(this, queue.take());
            } catch (InterruptedException e) {
                // An interrupt that came between two commands is for neither.
            }
        }
    }
}
