// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"
)

// TestMain has this program be the plugin where a runtime started it.
func TestMain(m *testing.M) {
	if os.Getenv(api.PluginSocketEnvVar) != "" {
		main()
		return
	}
	logrus.SetLevel(logrus.PanicLevel)
	os.Exit(m.Run())
}

// A plugin that the runtime starts gets its configuration from it, too.
func TestStartedByTheRuntime(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plugins", "conf.d"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "plugins/50-cgroup-steer"), text, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "conf.d/50-cgroup-steer.conf"), []byte("domain: steer.example\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := nri.New("containerd", "v1.7.24",
		func(ctx context.Context, tell nri.SyncCB) error { _, err := tell(ctx, nil, nil); return err },
		func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil },
		nri.WithPluginPath(filepath.Join(dir, "plugins")), nri.WithPluginConfigPath(filepath.Join(dir, "conf.d")),
		nri.WithDisabledExternalConnections())
	if err == nil {
		err = runtime.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Stop()
	_, err = runtime.CreateContainer(context.Background(), &api.CreateContainerRequest{
		Pod:       &api.PodSandbox{Id: "a", Annotations: map[string]string{"hint.steer.example": "pakc"}},
		Container: &api.Container{Id: "b", Name: "web"},
	})
	if err == nil || !strings.Contains(err.Error(), "annotation hint.steer.example: unknown word 'pakc' (did you mean 'pack'?)") {
		t.Errorf("got %v", err)
	}
}

func TestCommandLine(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("alow: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct{ arguments, wanted string }{
		{"--version", "cgroup-steer-nri unknown\n"},
		{"--config " + config + " --check-config", config + ": unknown key 'alow' (did you mean 'allow'?); known: domain"},
		{"--check-config", "--check-config needs --config FILE"},
		{"--config /nowhere", "/nowhere: no such file"},
		{"--cgroup-root /nowhere", "/nowhere: no such file"},
		{"--log-level loud", "--log-level: unknown 'loud'; known: debug info warn error"},
		{"--log-format xml", "--log-format: unknown 'xml'; known: text json"},
		{"--index 5", "--index '5' is not two digits"},
		{"--resync 1ms", "--resync 1ms is less than 1s"},
		{"--listen nowhere", "--listen: "},
		{"--cgroup-rot /x", "flag provided but not defined"},
		{"more", "unexpected argument 'more'"},
	} {
		var out, log strings.Builder
		err := run(t.Context(), strings.Fields(each.arguments), &out, &log)
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, each.wanted) {
			t.Errorf("%s: got '%s', wanted '%s'", each.arguments, got, each.wanted)
		}
	}
}
