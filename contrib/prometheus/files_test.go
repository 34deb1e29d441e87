package holdfastprom

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// known are the metrics of a manager that has gone through everything, with the values of their
// labels.
func known(t *testing.T) map[string]map[string][]string {
	t.Helper()
	all := map[string]map[string][]string{}
	for _, f := range redistest.Must(registered(t, busy(t)).Gather())(t) {
		labels := map[string][]string{"job": nil, "instance": nil} // Prometheus adds these
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		all[f.GetName()] = labels
		if f.Metric[0].Histogram != nil {
			delete(all, f.GetName())
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				all[f.GetName()+end] = labels
			}
			labels["le"] = nil
		}
	}
	return all
}

// expressions are those of the dashboard and of the alerts.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	titles := map[string]bool{}
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Description, p.Title)
		require.False(t, titles[p.Title], "two panels are %q", p.Title)
		titles[p.Title] = true
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	require.GreaterOrEqual(t, len(titles), 8)
	for _, v := range dashboard.Templating.List {
		if metric, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
			metric, label, _ := strings.Cut(strings.TrimSuffix(metric, ")"), ", ")
			all = append(all, "sum by ("+label+") ("+metric+")")
		}
	}

	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	text, err = os.ReadFile("alerts.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &alerts))
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.NotEmpty(t, r.Annotations["description"], r.Alert)
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				require.Contains(t, r.Expr, label[1], r.Alert)
			}
			all = append(all, r.Expr)
		}
	}
	return all
}

// Each expression can be parsed. Each metric, label and value of a label that it names is one of a
// running manager.
func TestFiles_NameWhatExists(t *testing.T) {
	metrics := known(t)
	used := map[string]bool{}
	for _, text := range expressions(t) {
		text = strings.NewReplacer("$__rate_interval", "5m").Replace(text)
		expr, err := metricsql.Parse(text)
		require.NoError(t, err, text)
		var labels []string
		metricsql.VisitAll(expr, func(e metricsql.Expr) {
			switch e := e.(type) {
			case *metricsql.MetricExpr:
				name, filters := "", e.LabelFilterss[0]
				for _, f := range filters {
					if f.Label == "__name__" {
						name = f.Value
					}
				}
				require.Contains(t, metrics, name, text)
				used[name] = true
				for _, f := range filters {
					if f.Label == "__name__" {
						continue
					}
					require.Contains(t, metrics[name], f.Label, text)
					labels = append(labels, f.Label)
					values := []string{f.Value}
					if f.IsRegexp {
						values = strings.Split(f.Value, "|")
					}
					for _, value := range values {
						if !strings.Contains(value, "$") {
							require.True(t, slices.Contains(metrics[name][f.Label], value), "%s has no %s %q", name, f.Label, value)
						}
					}
				}
			case *metricsql.AggrFuncExpr:
				for _, by := range e.Modifier.Args {
					for name := range used {
						if strings.Contains(text, name) {
							require.Contains(t, metrics[name], by, text)
						}
					}
				}
			}
		})
	}
	for name := range metrics {
		if !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") && !strings.Contains(name, "hold_seconds") {
			require.True(t, used[name], "nothing shows %s", name)
		}
	}
}

// The alerts fire in an outage and after a loss, and not for one moment's failures: alerts_test.yml
// has the situations. HOLDFAST_PROMTOOL is the promtool of Prometheus, if it is not on PATH.
func TestAlerts(t *testing.T) {
	path, wanted := os.LookupEnv("HOLDFAST_PROMTOOL")
	if !wanted {
		path = "promtool"
	}
	path, err := exec.LookPath(path)
	if err != nil && !wanted {
		t.Skip("SKIPPED: there is no promtool, so the alerts are not tested; .ci/run gets one")
	}
	require.NoError(t, err)
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.Command(path, args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// Counters of the only class are there at zero before anything has happened, so that a rule sees
// the first increase.
func TestNew_CountsFromZero(t *testing.T) {
	m := redistest.Must(New(Options{}))(t)
	counted := 0
	for _, f := range redistest.Must(registered(t, m.losses, m.failures).Gather())(t) {
		for _, series := range f.Metric {
			require.Zero(t, series.Counter.GetValue())
			counted++
		}
	}
	require.Equal(t, 2+len(Reasons()), counted)
}
