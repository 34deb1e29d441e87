package holdfast.interop;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** Makes Redisson clients, of any version that the agent is built with. */
final class Clients {
    private Clients() {}

    /** Opens a client with Redisson's defaults, except for what the request names. */
    static RedissonClient open(Request r) throws ReflectiveOperationException {
        Config config = new Config();
        if (r.watchdog > 0) {
            config.setLockWatchdogTimeout(r.watchdog);
        }
        if (!r.codec.isEmpty()) {
            config.setCodec((Codec) Class.forName(r.codec).getDeclaredConstructor().newInstance());
        }
        SingleServerConfig server = config.useSingleServer();
        server.setAddress("redis://127.0.0.1:" + r.port);
        // An agent has several clients, and 24 connections each are slow to open.
        server.setConnectionMinimumIdleSize(4);
        if (!r.prefix.isEmpty()) {
            map(server, r.prefix);
        }
        return Redisson.create(config);
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
