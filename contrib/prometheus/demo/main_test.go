package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patient is longer than any step takes on a busy machine.
const patient = time.Minute

const root = "../../../"

// A composition is what compose.yml says.
type composition struct {
	Services map[string]struct {
		Image, Build any
		Command      []string
		Environment  map[string]string
		Ports        []string
		Volumes      []string
		Configs      []struct{ Source, Target string }
		DependsOn    []string `yaml:"depends_on"`
	}
	Configs map[string]struct{ Content string }
}

func compose(t *testing.T) (c composition) {
	t.Helper()
	text, err := os.ReadFile("compose.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &c))
	return c
}

// The files, services and ports that compose.yml names are there, on both sides.
func TestCompose_NamesWhatExists(t *testing.T) {
	c := compose(t)
	mounted := map[string]string{}
	for name, s := range c.Services {
		require.True(t, (s.Image == nil) != (s.Build == nil), name)
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
			require.FileExists(t, from)
			mounted[to] = from
		}
		for _, m := range s.Configs {
			require.Contains(t, c.Configs, m.Source)
			mounted[m.Target] = m.Source
		}
		for _, other := range s.DependsOn {
			require.Contains(t, c.Services, other)
		}
		for _, p := range s.Ports {
			require.Regexp(t, `^127\.0\.0\.1:`, p)
		}
	}
	var prometheus struct {
		Rules  []string `yaml:"rule_files"`
		Scrape []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(c.Configs["prometheus"].Content), &prometheus))
	host, port, err := net.SplitHostPort(prometheus.Scrape[0].Static[0].Targets[0])
	require.NoError(t, err)
	require.Contains(t, c.Services[host].Command, ":"+port)
	require.Equal(t, "../alerts.yml", mounted["/etc/prometheus/"+prometheus.Rules[0]])
	require.Equal(t, "prometheus", mounted["/etc/prometheus/prometheus.yml"])

	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(c.Configs["datasources"].Content), &sources))
	require.Equal(t, "prometheus", sources.Datasources[0].Type)
	require.Equal(t, "http://prometheus:9090", sources.Datasources[0].URL)
	require.Contains(t, c.Services["prometheus"].Ports, "127.0.0.1:9090:9090")
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(c.Configs["dashboards"].Content), &providers))
	require.Equal(t, "../dashboard.json", mounted[providers.Providers[0].Options.Path+"/holdfast.json"])
	text, err := os.ReadFile("../dashboard.json")
	require.NoError(t, err)
	require.Contains(t, string(text), `"uid": "holdfast"`, "its URL ends so")
	for _, service := range []string{"load", "holdfast"} {
		require.Contains(t, strings.Join(append(c.Services[service].Command, c.Services[service].Environment["HOLDFAST_REDIS"]), " "), "redis://redis:6379")
	}
}

// What the Dockerfile runs builds the command, and the load of compose.yml, with the Go that it
// names.
func TestDockerfile_Builds(t *testing.T) {
	text, err := os.ReadFile(root + "Dockerfile")
	require.NoError(t, err)
	find := func(expr string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + expr + `$`).FindStringSubmatch(string(text))
		require.NotNil(t, m, expr)
		return m[1]
	}
	load, ok := compose(t).Services["load"].Build.(map[string]any)
	require.True(t, ok)
	require.Equal(t, filepath.Clean(root), load["context"])
	require.Equal(t, filepath.Clean(root), compose(t).Services["holdfast"].Build)
	command := find("RUN (.*)")
	require.Contains(t, command, " -o /holdfast ")
	for _, program := range []string{find("ARG PROGRAM=(.*)"), load["args"].(map[string]any)["PROGRAM"].(string)} {
		out := filepath.Join(t.TempDir(), "holdfast")
		c := exec.Command("sh", "-c", strings.Replace(command, " /holdfast ", " "+out+" ", 1))
		c.Dir, c.Env = root, append(os.Environ(), "PROGRAM="+program)
		said, err := c.CombinedOutput()
		require.NoError(t, err, string(said))
		said, err = exec.Command(out, "-h").CombinedOutput()
		require.NoError(t, err)
		require.Contains(t, string(said), "redis://127.0.0.1:6379")

		module, err := os.ReadFile(root + program + "/go.mod")
		if err != nil {
			module, err = os.ReadFile(root + program + "/../go.mod")
		}
		require.NoError(t, err)
		require.Contains(t, string(module), "\ngo "+find(`FROM golang:([\d.]+) AS build`)+".")
	}
}

// With this load each panel of the dashboard has data. HOLDFAST_PROMETHEUS is the prometheus, if it
// is not on PATH.
func TestDemo_FillsTheDashboard(t *testing.T) {
	path := os.Getenv("HOLDFAST_PROMETHEUS")
	if path == "" {
		path = "prometheus"
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Skip("SKIPPED: there is no prometheus, so the dashboard is not tested with the load; .ci/run gets one")
	}
	s := redistest.Start(t).Unrestricted()
	ctx, stop := context.WithCancel(t.Context())
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	d := &demo{url: "redis://" + s.Addr(), listen: "127.0.0.1:0", force: time.Second, addr: func(a net.Addr) { listening <- a }}
	go func() { ended <- d.run(ctx) }()
	defer func() { stop(); require.NoError(t, <-ended) }()

	dir := t.TempDir()
	config := strings.NewReplacer("load:2112", (<-listening).String(), "5s", "250ms").Replace(compose(t).Configs["prometheus"].Content)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	rules, err := os.ReadFile("../alerts.yml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), rules, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	p := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	p.Stderr = t.Output()
	require.NoError(t, p.Start())
	defer func() { _ = p.Process.Kill(); _ = p.Wait() }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(path string, answer any) bool {
		r, err := client.Get("http://" + address + "/api/v1/" + path)
		if err != nil {
			return false // it does not listen yet
		}
		defer r.Body.Close()
		if r.StatusCode == http.StatusServiceUnavailable {
			return false // it starts
		}
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.StatusCode, string(body))
		require.NoError(t, json.Unmarshal(body, answer))
		return true
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	moves := map[string]bool{"Held": true, "Grants a second": true, "Failures a second": true, "Losses": true}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$job", ".*", "$instance", ".*", "$manager", ".*", "$class", ".*", "$__rate_interval", "10s").Replace(target.Expr)
			require.Eventually(t, func() bool {
				var answer struct {
					Data struct{ Result []struct{ Value [2]any } }
				}
				if !ask("query?query="+url.QueryEscape(query), &answer) {
					return false
				}
				for _, series := range answer.Data.Result {
					value, err := strconv.ParseFloat(series.Value[1].(string), 64)
					require.NoError(t, err)
					if value > 0 || value == 0 && !moves[panel.Title] {
						return true
					}
				}
				return false
			}, patient, 100*time.Millisecond, "%s: %s", panel.Title, query)
		}
	}
	var loaded struct {
		Data struct {
			Groups []struct{ Rules []struct{ Health string } }
		}
	}
	require.Eventually(t, func() bool {
		return ask("rules", &loaded) && len(loaded.Data.Groups) > 0 && len(loaded.Data.Groups[0].Rules) > 3 && loaded.Data.Groups[0].Rules[0].Health == "ok"
	}, patient, 100*time.Millisecond)
}
