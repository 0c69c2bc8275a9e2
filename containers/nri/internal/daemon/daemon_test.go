// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"

	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/plugin"
)

func init() { logrus.SetLevel(logrus.PanicLevel) } // what the SDK's runtime says

// node is a machine without a kernel of its own: a directory that looks like a cgroup tree, and the SDK's runtime side.
type node struct {
	t           *testing.T
	dir         string
	output      *output
	stopRuntime func()

	mutex      sync.Mutex
	pods       map[string]*api.PodSandbox
	containers map[string]*api.Container
	updates    []*api.ContainerUpdate // that Synchronize asked for
	runtimes   int
	runtime    *nri.Adaptation
}

// output is what the daemon logs.
type output struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (o *output) Write(text []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

const (
	podSlice  = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podA.slice"
	otherPod  = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podB.slice"
	burstable = "kubepods.slice/kubepods-burstable.slice"
	kubepods  = "kubepods.slice"
)

func newNode(t *testing.T) *node {
	t.Helper()
	// A path of a socket must be short.
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, output: &output{}, pods: map[string]*api.PodSandbox{}, containers: map[string]*api.Container{}}
	n.write("cgroup/cpuset.cpus.effective", "0-3")
	for _, group := range []string{kubepods, burstable, podSlice, otherPod, "system.slice"} {
		n.group(group)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.output.String())
		}
	})
	return n
}

func (n *node) group(name string) {
	for file, value := range map[string]string{"cpu.weight": "100", "cpu.hint": "inherit", "cpu.gang": "0", "cpu.gang.scope": "llc",
		"cpu.headroom": "0.00", "cgroup.events": "populated 1\nfrozen 0"} {
		n.write("cgroup/"+name+"/"+file, value)
	}
}

func (n *node) write(name, text string) {
	n.t.Helper()
	file := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) read(name string) string {
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// startRuntime starts one behind a proxy, since the SDK's does not hang up when it stops, as a process that ends does.
func (n *node) startRuntime() {
	n.t.Helper()
	n.mutex.Lock()
	n.runtimes++
	socket := filepath.Join(n.dir, fmt.Sprintf("runtime%d.sock", n.runtimes))
	n.mutex.Unlock()
	runtime, err := nri.New("containerd", "v1.7.24", n.synchronize,
		func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil },
		nri.WithPluginPath(filepath.Join(n.dir, "plugins")), nri.WithSocketPath(socket))
	if err == nil {
		err = runtime.Start()
	}
	if err != nil {
		n.t.Error(err)
		return
	}
	n.mutex.Lock()
	n.runtime = runtime
	n.mutex.Unlock()
	listener, err := net.Listen("unix", filepath.Join(n.dir, "nri.sock"))
	if err != nil {
		n.t.Error(err)
		return
	}
	connections := []io.Closer{listener}
	var mutex sync.Mutex
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				_ = from.Close()
				continue
			}
			mutex.Lock()
			connections = append(connections, from, to)
			mutex.Unlock()
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	n.stopRuntime = sync.OnceFunc(func() {
		runtime.Stop()
		mutex.Lock()
		defer mutex.Unlock()
		for _, each := range connections {
			_ = each.Close()
		}
	})
	n.t.Cleanup(n.stopRuntime)
}

// registered waits for the runtime to count in a plugin that it has told of all pods.
func (n *node) registered() {
	n.mutex.Lock()
	runtime := n.runtime
	n.mutex.Unlock()
	runtime.BlockPluginSync().Unblock()
}

func (n *node) synchronize(ctx context.Context, tell nri.SyncCB) error {
	n.mutex.Lock()
	pods, containers := slices.Collect(maps.Values(n.pods)), slices.Collect(maps.Values(n.containers))
	n.mutex.Unlock()
	updates, err := tell(ctx, pods, containers)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.updates = updates
	return err
}

// startPlugin runs the daemon as main does, and waits until it is connected.
func (n *node) startPlugin(yaml string, change ...func(*Settings)) (stop func()) {
	n.t.Helper()
	settings := Settings{CgroupRoot: filepath.Join(n.dir, "cgroup"), Socket: filepath.Join(n.dir, "nri.sock"), Version: "test",
		Name: plugin.Name, Index: "50", Resync: time.Second,
		ConfigInterval: 10 * time.Millisecond}
	if yaml != "" {
		n.write("config.yaml", yaml)
		settings.Config = filepath.Join(n.dir, "config.yaml")
	}
	for _, each := range change {
		each(&settings)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	before := n.synced()
	go func() {
		ended <- Run(ctx, settings, slog.New(slog.NewTextHandler(n.output, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Error(err)
		}
	})
	n.t.Cleanup(stop)
	n.waitFor("a connection", func() bool { return n.synced() > before })
	n.registered()
	return stop
}

// synced counts how often the plugin has been told of all pods.
func (n *node) synced() int {
	return strings.Count(n.output.String(), "msg=synchronized")
}

func (n *node) waitFor(what string, is func() bool) {
	n.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (n *node) pod(id, group string, annotations map[string]string) *api.PodSandbox {
	return &api.PodSandbox{Id: id, Uid: id, Name: "pod-" + id, Namespace: "shop", Annotations: annotations,
		Linux: &api.LinuxPodSandbox{CgroupParent: filepath.Base(group)}}
}

func (n *node) run(pod *api.PodSandbox) {
	n.t.Helper()
	n.mutex.Lock()
	n.pods[pod.Id] = pod
	n.mutex.Unlock()
	if err := n.runtime.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: pod}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) stop(pod *api.PodSandbox) {
	n.t.Helper()
	n.mutex.Lock()
	delete(n.pods, pod.Id)
	n.mutex.Unlock()
	if err := n.runtime.StopPodSandbox(context.Background(), &api.StopPodSandboxRequest{Pod: pod}); err != nil {
		n.t.Fatal(err)
	}
}

// create returns what the container's spec gets, as text, or the error.
func (n *node) create(pod *api.PodSandbox, name string) string {
	container := &api.Container{Id: pod.Id + "-" + name, PodSandboxId: pod.Id, Name: name, State: api.ContainerState_CONTAINER_RUNNING,
		Linux: &api.LinuxContainer{Resources: &api.LinuxResources{}, CgroupsPath: pod.Linux.CgroupParent + ":cri:" + name}}
	reply, err := n.runtime.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: pod, Container: container})
	if err != nil {
		return "error: " + err.Error()
	}
	n.mutex.Lock()
	n.containers[container.Id] = container
	n.mutex.Unlock()
	return show(reply.GetAdjust().GetLinux().GetResources().GetUnified())
}

func show(unified map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(unified)) {
		words = append(words, key+"="+unified[key])
	}
	return strings.Join(words, "; ")
}

func (n *node) expect(what, got, wanted string) {
	n.t.Helper()
	if got != wanted {
		n.t.Errorf("%s: got '%s', wanted '%s'", what, got, wanted)
	}
}

func (n *node) expectPart(what, got string, parts ...string) {
	n.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			n.t.Errorf("%s: no '%s' in '%s'", what, part, got)
		}
	}
}

func (n *node) headrooms() string {
	var values []string
	for _, group := range []string{kubepods, burstable, podSlice, otherPod} {
		values = append(values, n.read("cgroup/"+group+"/cpu.headroom"))
	}
	return strings.Join(values, " ")
}

const everything = `
allow:
- keys: [hint, gang, gang.scope, headroom]
  maxHeadroom: 60%
  scopes: [pod, node]
`

func annotations(words ...string) map[string]string {
	result := map[string]string{}
	for i := 0; i < len(words); i += 2 {
		key, suffix, _ := strings.Cut(words[i], "/")
		if suffix != "" {
			suffix = "/" + suffix
		}
		result[key+"."+config.DefaultDomain+suffix] = words[i+1]
	}
	return result
}

func TestContainerOverridesPodOverridesDefaults(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin("defaults:\n- namespaces: [sh*]\n  hint: background\n  gang: no\n- hint: interactive\n  gang.scope: node\n")
	pod := n.pod("A", podSlice, annotations("hint/pod", " tail_latency\tpack ", "hint", "none", "hint/container.db", "wake_hold", "gang", "yes"))
	n.run(pod)
	n.expect("of the container", n.create(pod, "db"), "cpu.gang=1; cpu.gang.scope=node; cpu.hint=wake_hold")
	n.expect("of the pod", n.create(pod, "web"), "cpu.gang=1; cpu.gang.scope=node; cpu.hint=tail_latency pack")
	plain := n.pod("B", otherPod, nil)
	n.run(plain)
	n.expect("of the cluster", n.create(plain, "web"), "cpu.gang=0; cpu.gang.scope=node; cpu.hint=background")
	elsewhere := n.pod("C", otherPod, nil)
	elsewhere.Namespace = "other"
	n.expect("of another rule", n.create(elsewhere, "web"), "cpu.gang.scope=node; cpu.hint=interactive")
}

func TestWithoutConfiguration(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin("")
	pod := n.pod("A", podSlice, annotations("hint", "tail_latency"))
	n.run(pod)
	n.expect("a hint is allowed", n.create(pod, "web"), "cpu.hint=tail_latency")
	n.expect("nothing is nothing", n.create(n.pod("B", otherPod, nil), "web"), "")
	pod = n.pod("C", otherPod, annotations("headroom", "20%", "hint", "pack"))
	n.run(pod)
	n.expectPart("a headroom is not", n.create(pod, "web"), "error: ", "headroom.cgroup-steer.internal", "namespace 'shop'")
	n.expect("headroom", n.headrooms(), "0.00 0.00 0.00 0.00")
}

func TestErrorsReachTheClient(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin(everything)
	for _, each := range []struct {
		annotations map[string]string
		parts       []string
	}{
		{annotations("hint", "tail_latncy"), []string{"'tail_latncy'", "did you mean 'tail_latency'?"}},
		{annotations("hint/container.web", "+pack"), []string{"'+pack' is an edit", "hint.cgroup-steer.internal/container.web"}},
		{annotations("hint/containr.web", "pack"), []string{"neither 'pod' nor 'container.NAME'"}},
		{annotations("hnit", "pack"), []string{"unknown key 'hnit' (did you mean 'hint'?)"}},
		{annotations("gang", "2", "hint", "x"), []string{"'2' is neither 0 nor 1", "unknown word 'x'"}},
		{annotations("headroom", "20"), []string{"20 CPUs are more than the 4 CPUs", "20%"}},
		{annotations("headroom", "61%"), []string{"allows at most 60.00%"}},
		{annotations("headroom/container.web", "61%"), []string{"allows at most 60.00%"}},
		{annotations("headroom.scope/container.web", "node"), []string{"not for a container"}},
	} {
		pod := n.pod("A", podSlice, each.annotations)
		n.run(pod)
		n.expectPart(fmt.Sprint(each.annotations), n.create(pod, "web"), append(each.parts, "error: ", "cgroup-steer: ")...)
		n.expect("headroom", n.headrooms(), "0.00 0.00 0.00 0.00")
		n.stop(pod)
	}
}

// Nothing of a set is applied where something of it is wrong, whichever container that is for.
func TestAllOrNothing(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin(everything + "onInvalid: ignore\ndefaults:\n- hint: pack\n")
	pod := n.pod("A", podSlice, annotations("hint/container.db", "bad", "hint", "tail_latency", "headroom", "20%"))
	n.run(pod)
	n.expect("only the defaults", n.create(pod, "web"), "cpu.hint=pack")
	n.expect("headroom", n.headrooms(), "0.00 0.00 0.00 0.00")
	pod = n.pod("B", otherPod, annotations("hint", "tail_latency", "headroom", "61%"))
	n.run(pod)
	n.expect("nothing, as the headroom is not possible", n.create(pod, "web"), "")
}

func TestHeadroomOfPods(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin(everything)
	a := n.pod("A", podSlice, annotations("headroom", "1500m", "headroom/container.web", "500m"))
	n.run(a)
	n.expect("1500m of 4 CPUs", n.headrooms(), "0.00 0.00 37.50 0.00")
	n.expect("between containers", n.create(a, "web"), "cpu.headroom=12.50")
	n.expect("between containers", n.create(a, "db"), "")
	b := n.pod("B", otherPod, annotations("headroom", "20%", "headroom.scope", "node"))
	n.run(b)
	n.expect("for the node", n.headrooms(), "20.00 20.00 37.50 20.00")
	n.stop(a)
	n.expect("of one that has stopped", n.headrooms(), "20.00 20.00 0.00 20.00")
	a.Annotations = annotations("headroom", "30%", "headroom.scope", "node")
	n.run(a)
	n.expect("the largest", n.headrooms(), "30.00 30.00 30.00 20.00")
	n.stop(a)
	n.expect("the other", n.headrooms(), "20.00 20.00 0.00 20.00")
	if err := n.runtime.RemovePodSandbox(context.Background(), &api.RemovePodSandboxRequest{Pod: b}); err != nil {
		t.Fatal(err)
	}
	n.expect("none", n.headrooms(), "0.00 0.00 0.00 0.00")
}

// What somebody else set is kept, and comes back, whoever was restarted meanwhile.
func TestHeadroomOfOthersAndRestart(t *testing.T) {
	n := newNode(t)
	n.write("cgroup/"+kubepods+"/cpu.headroom", "10.00")
	n.startRuntime()
	stop := n.startPlugin(everything)
	a := n.pod("A", podSlice, annotations("headroom", "30%", "headroom.scope", "node"))
	n.run(a)
	n.expect("raised", n.headrooms(), "30.00 30.00 30.00 0.00")
	stop()
	n.expect("nobody there", n.headrooms(), "30.00 30.00 30.00 0.00")
	n.mutex.Lock()
	delete(n.pods, "A")
	n.mutex.Unlock()
	stop = n.startPlugin(everything)
	n.expect("lowered", n.headrooms(), "10.00 0.00 0.00 0.00")
	n.run(a)
	n.write("cgroup/"+kubepods+"/cpu.headroom", "40.00")
	n.stop(a)
	n.expect("set by somebody else meanwhile", n.headrooms(), "40.00 0.00 0.00 0.00")
	stop()
}

func TestKernelWithoutFiles(t *testing.T) {
	n := newNode(t)
	for _, group := range []string{kubepods, burstable, podSlice, otherPod, "system.slice"} {
		_ = os.Remove(filepath.Join(n.dir, "cgroup", group, "cpu.headroom"))
	}
	n.startRuntime()
	features := filepath.Join(n.dir, "features.d")
	if err := os.Mkdir(features, 0o755); err != nil {
		t.Fatal(err)
	}
	stop := n.startPlugin(everything+"onMissing: ignore\n", func(s *Settings) { s.Features = features })
	n.waitFor("the features", func() bool {
		text, _ := os.ReadFile(filepath.Join(features, featureFile))
		return string(text) == "cgroup-steer.hint=true\ncgroup-steer.gang=true\ncgroup-steer.headroom=false\n"
	})
	both := n.pod("A", podSlice, annotations("hint", "pack", "headroom", "20%"))
	n.run(both)
	n.expect("ignored as a whole", n.create(both, "web"), "")
	hint := n.pod("B", otherPod, annotations("hint", "pack"))
	n.run(hint)
	n.expect("there", n.create(hint, "web"), "cpu.hint=pack")
	stop()
	n.startPlugin(everything + "onMissing: reject\n")
	n.expectPart("rejected", n.create(both, "web"), "error: ", "this kernel has no cpu.headroom")
}

// A runtime that was restarted tells of all containers; those that are not as they should be are updated.
func TestRuntimeRestart(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin(everything)
	pod := n.pod("A", podSlice, annotations("hint", "tail_latency", "gang", "1", "gang.scope", "core"))
	n.run(pod)
	for _, name := range []string{"same", "changed"} {
		n.create(pod, name)
		n.group(podSlice + "/cri-" + name + ".scope")
		n.write("cgroup/"+podSlice+"/cri-"+name+".scope/cpu.hint", "tail_latency")
		n.write("cgroup/"+podSlice+"/cri-"+name+".scope/cpu.gang.scope", "core")
	}
	n.write("cgroup/"+podSlice+"/cri-same.scope/cpu.gang", "1")
	for range 2 {
		before := n.synced()
		n.stopRuntime()
		n.startRuntime()
		n.waitFor("a new connection", func() bool { return n.synced() > before })
		n.registered()
		n.mutex.Lock()
		if len(n.updates) != 1 || n.updates[0].ContainerId != "A-changed" {
			t.Errorf("updates: %v", n.updates)
		} else {
			n.expect("update", show(n.updates[0].Linux.Resources.Unified), "cpu.gang=1; cpu.gang.scope=core; cpu.hint=tail_latency")
		}
		n.mutex.Unlock()
		n.expect("new containers", n.create(pod, "new"), "cpu.gang=1; cpu.gang.scope=core; cpu.hint=tail_latency")
		delete(n.containers, "A-new")
	}
}

// Somebody who accepts a connection and says nothing, or hangs up before the plugin is configured, does not stop it.
func TestRuntimeThatHangsUp(t *testing.T) {
	n := newNode(t)
	socket := filepath.Join(n.dir, "nri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 2 {
			if connection, err := listener.Accept(); err == nil {
				time.Sleep(50 * time.Millisecond)
				_ = connection.Close()
			}
		}
		_ = listener.Close()
		n.startRuntime()
	}()
	n.startPlugin(everything)
	n.expect("it works", n.create(n.pod("A", podSlice, annotations("hint", "pack")), "web"), "cpu.hint=pack")
}

func TestUpdateKeepsPolicy(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin("")
	pod := n.pod("A", podSlice, annotations("hint", "pack"))
	n.run(pod)
	n.create(pod, "web")
	resources := &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(512)}, Unified: map[string]string{"memory.high": "max"}}
	reply, err := n.runtime.UpdateContainer(context.Background(), &api.UpdateContainerRequest{Pod: pod,
		Container: n.containers["A-web"], LinuxResources: resources})
	if err != nil {
		t.Fatal(err)
	}
	for _, update := range reply.Update {
		got := update.Linux.Resources
		n.expect("update", show(got.Unified), "cpu.hint=pack; memory.high=max")
		n.expect("shares", fmt.Sprint(got.Cpu.Shares.Value), "512")
	}
	if len(reply.Update) != 1 {
		t.Errorf("updates: %v", reply.Update)
	}
	// One whose annotations are refused is updated all the same.
	pod.Annotations = annotations("hint", "bad")
	if _, err = n.runtime.UpdateContainer(context.Background(), &api.UpdateContainerRequest{Pod: pod,
		Container: n.containers["A-web"], LinuxResources: resources}); err != nil {
		t.Error(err)
	}
}

func TestMetricsAndHealth(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	get := func(path string) (string, int) {
		reply, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reply.Body.Close() }()
		text, _ := io.ReadAll(reply.Body)
		return string(text), reply.StatusCode
	}
	n.startPlugin(everything, func(s *Settings) { s.Listen = address })
	pod := n.pod("A", podSlice, annotations("hint", "pack", "headroom", "25%"))
	n.run(pod)
	n.create(pod, "web")
	n.group(podSlice + "/cri-web.scope")
	n.write("cgroup/"+podSlice+"/cpu.stat", "usage_usec 1\nheadroom_periods 7\nhint_pack_followed 1")
	n.write("cgroup/"+podSlice+"/cri-web.scope/cpu.stat", "usage_usec 1\nheadroom_periods 5\nhint_pack_followed 40")
	n.write("cgroup/"+podSlice+"/cpu.headroom.stat", "demand 12.50\nbudget_usec max")
	bad := n.pod("B", otherPod, annotations("hint", "bad"))
	n.create(bad, "web")
	n.create(bad, "web")
	text, _ := get("/metrics")
	for _, line := range []string{
		`cgroup_steer_nri_applied_total{key="hint"} 1`, `cgroup_steer_nri_applied_total{key="headroom"} 1`,
		`cgroup_steer_nri_applied_total{key="gang"} 0`,
		`cgroup_steer_nri_rejected_total{reason="invalid"} 2`, `cgroup_steer_nri_rejected_total{reason="timeout"} 0`,
		`cgroup_steer_nri_pod_stat_total{namespace="shop",pod="pod-A",stat="hint_pack_followed"} 41`,
		`cgroup_steer_nri_pod_stat_total{namespace="shop",pod="pod-A",stat="headroom_periods"} 7`,
		`cgroup_steer_nri_pod_headroom_ratio{namespace="shop",pod="pod-A"} 0.25`,
		`cgroup_steer_nri_pod_headroom_demand_ratio{namespace="shop",pod="pod-A"} 0.125`,
		`cgroup_steer_nri_config_valid 1`, `cgroup_steer_nri_connected 1`, `cgroup_steer_nri_build_info{version="test"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line '%s' in\n%s", line, text)
		}
	}
	if strings.Contains(text, "usage_usec") || strings.Contains(text, "pod-B") {
		t.Errorf("more than was asked for:\n%s", text)
	}
	n.stop(pod)
	if text, _ = get("/metrics"); strings.Contains(text, "pod-A") {
		t.Errorf("a pod that is gone has metrics:\n%s", text)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if text, status := get(path); status != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	n.stopRuntime()
	n.waitFor("not ready", func() bool { _, status := get("/readyz"); return status == http.StatusServiceUnavailable })
	if _, status := get("/healthz"); status != http.StatusOK {
		t.Error("not healthy without a runtime")
	}
}

// The file is replaced, as a ConfigMap is; running containers are judged anew.
func TestConfigurationChanges(t *testing.T) {
	n := newNode(t)
	changes := make(chan error, 10)
	file := filepath.Join(n.dir, "config.yaml")
	n.write("one/config.yaml", "onMissing: reject")
	n.write("two/config.yaml", "onMissing: rejct")
	n.write("three/config.yaml", "domain: steer.example")
	link := func(to string) {
		_ = os.Remove(file)
		if err := os.Symlink(filepath.Join(n.dir, to, "config.yaml"), file); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	_, text, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	go watchConfig(t.Context(), file, text, 10*time.Millisecond, slog.New(slog.DiscardHandler), func(c config.Config, err error) {
		if err == nil {
			err = fmt.Errorf("now %s", c.Domain)
		}
		changes <- err
	})
	link("two")
	n.expectPart("a bad one", (<-changes).Error(), file, "onMissing", "did you mean 'reject'?")
	link("three")
	n.expect("a good one", (<-changes).Error(), "now steer.example")
}

func TestReloadReconnects(t *testing.T) {
	n := newNode(t)
	n.startRuntime()
	n.startPlugin("onMissing: reject\n")
	pod := n.pod("A", podSlice, annotations("headroom", "20%"))
	n.run(pod)
	n.expect("not allowed", n.headrooms(), "0.00 0.00 0.00 0.00")
	before := n.synced()
	n.write("config.yaml", everything)
	n.waitFor("a new connection", func() bool { return n.synced() > before })
	n.registered()
	n.expect("allowed now", n.headrooms(), "0.00 0.00 20.00 0.00")
}
