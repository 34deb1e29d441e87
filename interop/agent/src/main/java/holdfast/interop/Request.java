package holdfast.interop;

import java.util.List;

/** One line of standard input. Fields that a line does not have keep these values. Times are in ms. */
final class Request {
    long id;
    String op;
    /** The Redisson client, as named by "open". */
    String client = "";
    /** The Java thread that carries the command out. */
    String thread = "";
    /** lock, fair, nonReentrantFair, read, write, spin, fenced, multi or semaphore. */
    String kind = "lock";
    String name = "";
    /** For kind multi, in place of name. */
    List<String> names = List.of();
    /** Negative: tryLock() without arguments. */
    long wait = -1;
    /** Negative: none, so that Redisson's watchdog renews. */
    long lease = -1;

    // open
    int port;
    /** The nodes of a cluster, in place of port. */
    List<Integer> ports = List.of();
    /** The client of a cluster uses classic channels, also where sharded ones are Redisson's default. */
    boolean classic;
    long watchdog;
    /** For how long a waiter of kind fair keeps its place, if it waits without a limit. 0: Redisson's default. */
    long fairWait;
    String codec = "";
    String prefix = "";

    // grants
    /** A plain counter, read and written back by two commands. */
    String counter = "";
    /** A counter that is 1 inside the lock and 0 outside. With kind semaphore it is how many permits are taken. */
    String inside = "";
    /** A counter of those inside the read side. Writers look at it, and readers at inside. */
    String readers = "";
    int threads = 1;
    /** A thread of grants ends after as many grants. 0: no limit. Its wait and its lease count if they are positive. */
    long times;
    /** How long each grant is held, in µs. */
    long hold;
    /** grants ends when counter has this value, or with kind read after as many grants. 0: no limit. */
    long limit;
    /** grants takes no more locks after this time. 0: no limit. */
    long millis;

    // kind semaphore
    /** How many there are or shall be, how many to add, or how many to take, which is at least one. */
    int permits;
    /** The permits to give back. */
    List<String> ids = List.of();
    /** A grant of grants takes a random number of permits, up to this one. */
    int most = 1;
}
