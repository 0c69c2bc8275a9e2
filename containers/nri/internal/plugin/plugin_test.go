// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"cgroup-steer/nri/internal/cgroup"
	"cgroup-steer/nri/internal/config"
)

// hanging is a cgroup tree that stops to answer.
type hanging struct {
	cgroup.Groups
	hang    atomic.Bool
	release chan struct{}
}

func (h *hanging) wait() {
	if h.hang.Load() {
		<-h.release
	}
}

func (h *hanging) Exists(name string) (bool, error) {
	h.wait()
	return h.Groups.Exists(name)
}

func (h *hanging) Read(group, file string) (string, error) {
	h.wait()
	return h.Groups.Read(group, file)
}

func (h *hanging) Children(group string) ([]string, error) {
	h.wait()
	return h.Groups.Children(group)
}

// Each answer comes in time, with what needs no file; what does is refused, or left as it is.
func TestAnswersInTime(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"cpuset.cpus.effective": "0-3", "pod/cpu.weight": "100", "pod/cpu.hint": "inherit",
		"pod/cpu.headroom": "0.00", "pod/cpu.stat": "hint_pack_followed 1"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := cgroup.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	groups := &hanging{Groups: tree, release: make(chan struct{})}
	defer close(groups.release)
	settings, err := config.Parse([]byte("allow:\n- keys: [hint, headroom]\n"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	keeper, metrics := cgroup.NewKeeper(groups, log), NewMetrics(groups, "test")
	plugin := New(settings, true, groups, keeper, metrics, log)
	go keeper.Run(t.Context(), time.Hour)

	pod := func(words ...string) *api.PodSandbox {
		result := &api.PodSandbox{Id: "1", Name: "a", Annotations: map[string]string{}, Linux: &api.LinuxPodSandbox{CgroupParent: "pod"}}
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			key, suffix, found := strings.Cut(key, "/")
			if found {
				suffix = "/" + suffix
			}
			result.Annotations[key+"."+config.DefaultDomain+suffix] = value
		}
		return result
	}
	container := &api.Container{Id: "c", PodSandboxId: "1", Name: "web", Linux: &api.LinuxContainer{CgroupsPath: "pod/web"}}
	both, hint, between := pod("hint=pack", "headroom=10%"), pod("hint=pack"), pod("headroom/container.web=1")
	create := func(pod *api.PodSandbox) string {
		adjustment, _, err := plugin.CreateContainer(context.Background(), pod, container)
		if err != nil {
			return err.Error()
		}
		return adjustment.GetLinux().GetResources().GetUnified()["cpu.hint"]
	}
	inTime := func(what string, call func()) {
		t.Helper()
		begin := time.Now()
		call()
		// The runtime waits for two seconds. This machine may be busy with other tests.
		if took := time.Since(begin); took > 3*AnswerTime {
			t.Errorf("%s: took %s", what, took)
		}
	}
	if got := create(both); got != "pack" {
		t.Fatal(got)
	}
	groups.hang.Store(true)
	inTime("headroom", func() {
		if got := create(both); !strings.Contains(got, "did not answer in time") {
			t.Error(got)
		}
	})
	inTime("between containers", func() {
		if got := create(between); !strings.Contains(got, "did not answer in time") {
			t.Error(got)
		}
	})
	inTime("hint", func() {
		if got := create(hint); got != "pack" {
			t.Error(got)
		}
	})
	inTime("run", func() { _ = plugin.RunPodSandbox(context.Background(), both) })
	inTime("stop", func() { _ = plugin.StopPodSandbox(context.Background(), both) })
	inTime("synchronize", func() {
		updates, err := plugin.Synchronize(context.Background(), []*api.PodSandbox{hint}, []*api.Container{container, container, container})
		if len(updates) != 3 || err != nil {
			t.Error(updates, err)
		}
	})
	begin := time.Now()
	if _, err := metrics.Registry.Gather(); err != nil || time.Since(begin) > 2*scrapeTime {
		t.Error(err, time.Since(begin))
	}
}

// However many pods there are, and however often one of a name comes back, the metrics are bounded and valid.
func TestManyPods(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pod/cpu.headroom"), []byte("1.00"), 0o644); err != nil {
		t.Fatal(err)
	}
	tree, err := cgroup.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	keeper, metrics := cgroup.NewKeeper(tree, log), NewMetrics(tree, "test")
	go keeper.Run(t.Context(), time.Hour)
	plugin := New(config.Default(), true, tree, keeper, metrics, log)
	for i := range 3 * podsMost {
		pod := &api.PodSandbox{Id: string(rune(i + 1000)), Name: string(rune('a' + i%1000)), Linux: &api.LinuxPodSandbox{CgroupParent: "pod"}}
		if i%2 == 0 {
			pod.Annotations = map[string]string{"hint." + config.DefaultDomain: "pack"}
		}
		_ = plugin.RunPodSandbox(context.Background(), pod)
	}
	if len(metrics.pods) != podsMost {
		t.Errorf("%d pods", len(metrics.pods))
	}
	if families, err := metrics.Registry.Gather(); err != nil || len(families) == 0 {
		t.Error(err)
	}
}
