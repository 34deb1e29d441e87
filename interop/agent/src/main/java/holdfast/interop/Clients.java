package holdfast.interop;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.RedissonFairLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.command.CommandAsyncExecutor;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** Makes Redisson clients, of any version that the agent is built with. */
final class Clients {
    /** The fairWait of clients whose version has no such setting, by their IDs. */
    private static final Map<String, Long> FAIR_WAITS = new ConcurrentHashMap<>();

    private Clients() {}

    /** Opens a client with Redisson's defaults, except for what the request names. */
    static RedissonClient open(Request r) throws ReflectiveOperationException {
        Config config = new Config();
        if (r.watchdog > 0) {
            config.setLockWatchdogTimeout(r.watchdog);
        }
        boolean fairWaitIsSet = r.fairWait <= 0 || setFairWait(config, r.fairWait);
        if (!r.codec.isEmpty()) {
            config.setCodec((Codec) Class.forName(r.codec).getDeclaredConstructor().newInstance());
        }
        if (r.ports.isEmpty()) {
            useServer(config, r);
        } else {
            useCluster(config, r);
        }
        RedissonClient client = Redisson.create(config);
        if (!fairWaitIsSet) {
            FAIR_WAITS.put(client.getId(), r.fairWait);
        }
        return client;
    }

    private static void useServer(Config config, Request r) throws ReflectiveOperationException {
        SingleServerConfig server = config.useSingleServer();
        server.setAddress("redis://127.0.0.1:" + r.port);
        // An agent has several clients, and 24 connections each are slow to open.
        server.setConnectionMinimumIdleSize(4);
        if (!r.prefix.isEmpty()) {
            map(server, r.prefix);
        }
    }

    private static void useCluster(Config config, Request r) throws ReflectiveOperationException {
        ClusterServersConfig cluster = config.useClusterServers();
        for (int port : r.ports) {
            cluster.addNodeAddress("redis://127.0.0.1:" + port);
        }
        // The connections to each node.
        cluster.setMasterConnectionMinimumIdleSize(4);
        cluster.setSlaveConnectionMinimumIdleSize(1);
        if (r.classic) {
            useClassicChannels(cluster);
        }
    }

    /** Sets the kind of channels. 3.16.8 has classic ones only, and no setting. */
    private static void useClassicChannels(ClusterServersConfig cluster) throws ReflectiveOperationException {
        for (Method setter : ClusterServersConfig.class.getMethods()) {
            if (setter.getName().equals("setShardedSubscriptionMode")) {
                Class<?> mode = setter.getParameterTypes()[0];
                setter.invoke(cluster, mode.getField("OFF").get(null));
            }
        }
    }

    /** Sets the wait time of fair locks, which versions before 3.46 do not have as a setting. */
    private static boolean setFairWait(Config config, long wait) throws ReflectiveOperationException {
        try {
            Config.class.getMethod("setFairLockWaitTimeout", long.class).invoke(config, wait);
            return true;
        } catch (NoSuchMethodException e) {
            return false;
        }
    }

    /** Returns a fair lock with the wait time of its client. */
    static RLock fairLock(RedissonClient client, String name) {
        Long wait = FAIR_WAITS.get(client.getId());
        if (wait == null) {
            return client.getFairLock(name);
        }
        try {
            return RedissonFairLock.class.getConstructor(CommandAsyncExecutor.class, String.class, long.class)
                    .newInstance(((Redisson) client).getCommandExecutor(), name, wait);
        } catch (ReflectiveOperationException e) {
            throw new UnsupportedOperationException("this Redisson has no fair lock with a wait time", e);
        }
    }

    /**
     * Sets a NameMapper that puts a prefix before each name. The interface is in another package
     * since 4.0, so it is found by the setter's parameter.
     */
    private static void map(SingleServerConfig server, String prefix) throws ReflectiveOperationException {
        for (Method setter : server.getClass().getMethods()) {
            if (!setter.getName().equals("setNameMapper")) {
                continue;
            }
            Class<?> type = setter.getParameterTypes()[0];
            InvocationHandler mapper = (proxy, method, args) -> switch (method.getName()) {
                case "map" -> prefix + args[0];
                case "unmap" -> args[0].toString().substring(prefix.length());
                case "equals" -> proxy == args[0];
                case "hashCode" -> System.identityHashCode(proxy);
                default -> prefix;
            };
            setter.invoke(server, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, mapper));
            return;
        }
        throw new NoSuchMethodException("setNameMapper");
    }
}
