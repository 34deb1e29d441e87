package holdfast.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** What a workload has measured. All times are in nanoseconds. */
final class Report {
    private final Map<String, String> fields = new LinkedHashMap<>();

    Report put(String key, long value) {
        fields.put(key, Long.toString(value));
        return this;
    }

    Report put(String key, double value) {
        fields.put(key, String.format(Locale.ROOT, "%.3f", value));
        return this;
    }

    Report put(String key, long[] values) {
        fields.put(key, Arrays.toString(values));
        return this;
    }

    /** Says why the figures are not to be used. */
    Report problem(String text) {
        fields.put("Problem", quote(text));
        return this;
    }

    /** Returns the report as one line. */
    String json() {
        StringBuilder line = new StringBuilder("{");
        fields.forEach((key, value) -> line.append(line.length() > 1 ? "," : "").append(quote(key)).append(':').append(value));
        return line.append('}').toString();
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(' ');
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    /** Returns the CPU time of this process so far. */
    static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
