// SPDX-License-Identifier: Apache-2.0

// Package plugin answers the runtime's requests, and keeps the connection to it.
package plugin

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"

	"cgroup-steer/nri/internal/cgroup"
	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/policy"
)

// AnswerTime is the longest that an answer takes, whatever the file system does. A runtime's limit is 2 s for all plugins.
const AnswerTime = 500 * time.Millisecond

// Plugin implements the interfaces of the NRI stub.
//
// It has no lasting state. What pods there are, the runtime says whenever a connection begins; what is in force, the
// kernel's files say.
type Plugin struct {
	config  atomic.Pointer[config.Config]
	groups  cgroup.Groups
	keeper  *cgroup.Keeper
	metrics *Metrics
	log     *slog.Logger
	// fixed: the configuration is a file of ours, so the one that the runtime hands over is not used.
	fixed  bool
	synced atomic.Bool
	// reads bounds how many calls may be waiting for a file system that does not answer.
	reads chan struct{}
}

// New makes a plugin. Where fixed is false, a configuration that the runtime hands over replaces the one given.
func New(settings config.Config, fixed bool, groups cgroup.Groups, keeper *cgroup.Keeper, metrics *Metrics,
	log *slog.Logger) *Plugin {
	result := &Plugin{groups: groups, keeper: keeper, metrics: metrics, log: log, fixed: fixed,
		reads: make(chan struct{}, 16)}
	result.config.Store(&settings)
	return result
}

// Synced tells whether the runtime has told which pods there are, and is still connected.
func (p *Plugin) Synced() bool { return p.synced.Load() }

// Configure takes the configuration of the runtime (its /etc/nri/conf.d/NN-NAME.conf), unless there is a file of ours.
func (p *Plugin) Configure(_ context.Context, text, runtime, version string) (api.EventMask, error) {
	p.log.Info("connected", "runtime", runtime, "version", version)
	if text == "" || p.fixed {
		return 0, nil
	}
	settings, err := config.Parse([]byte(text))
	if err != nil {
		p.log.Error("the configuration that the runtime handed over is not valid", "error", err)
		return 0, err
	}
	p.config.Store(&settings)
	return 0, nil
}

// evaluated is what holds for a pod, and why its annotations do not, where they do not.
func (p *Plugin) evaluate(pod *api.PodSandbox) (policy.Request, *policy.Error) {
	settings := p.config.Load()
	facts := policy.Pod{Namespace: pod.GetNamespace(), Labels: pod.GetLabels(), Annotations: pod.GetAnnotations()}
	request, err := settings.Rules().Evaluate(facts)
	if err != nil {
		return settings.Rules().WithoutAnnotations(facts), err
	}
	return request, nil
}

func podName(pod *api.PodSandbox) string { return pod.GetNamespace() + "/" + pod.GetName() }

// claim returns the pod's headroom as the keeper takes it; false where the pod has none.
func (p *Plugin) claim(pod *api.PodSandbox, request policy.Request) (cgroup.Claim, bool, *policy.Error) {
	headroom, node := request.Headroom()
	if headroom.Zero() {
		return cgroup.Claim{}, false, nil
	}
	groups, err := cgroup.PodGroups(pod.GetLinux().GetCgroupParent())
	if err != nil {
		return cgroup.Claim{}, false, policy.Errorf(policy.Failed, "headroom: %v", err)
	}
	return cgroup.Claim{Pod: podName(pod), Groups: groups, Headroom: headroom, Node: node, Check: request.PodMaximum},
		true, nil
}

// Synchronize is called when a connection begins. Containers whose values are not as they should be are updated.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) (
	[]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AnswerTime)
	defer cancel()
	claims := map[string]cgroup.Claim{}
	requests := map[string]policy.Request{}
	byID := map[string]*api.PodSandbox{}
	for _, pod := range pods {
		byID[pod.GetId()] = pod
		request, refused := p.evaluate(pod)
		claim, has, err := p.claim(pod, request)
		if refused != nil {
			p.log.Warn("policy not applied", "pod", podName(pod), "reason", refused.Reason, "error", refused.Text)
		}
		if err != nil {
			p.log.Warn("policy not applied", "pod", podName(pod), "reason", err.Reason, "error", err.Text)
			continue
		}
		requests[pod.GetId()] = request
		if has {
			claims[pod.GetId()] = claim
		}
	}
	p.metrics.setPods(byID, requests)
	p.keeper.Replace(claims)
	if err := p.keeper.Settle(ctx, ""); err != nil {
		p.log.Warn("headrooms are late", "error", err.Text)
	}

	var updates []*api.ContainerUpdate
	for _, container := range containers {
		pod, request := byID[container.GetPodSandboxId()], requests[container.GetPodSandboxId()]
		if pod == nil || container.GetState() == api.ContainerState_CONTAINER_STOPPED {
			continue
		}
		values := request.Container(container.GetName())
		files, err := p.files(ctx, pod, request, values)
		if err != nil {
			p.log.Warn("policy not applied", "pod", podName(pod), "container", container.GetName(), "reason", err.Reason,
				"error", err.Text)
			continue
		}
		if len(files) == 0 || p.inForce(ctx, container, files) {
			continue
		}
		update := &api.ContainerUpdate{}
		update.SetContainerId(container.GetId())
		for file, value := range files {
			update.AddLinuxUnified(file, value)
		}
		// Whoever has gone meanwhile is no reason to fail.
		update.SetIgnoreFailure()
		updates = append(updates, update)
	}
	p.synced.Store(true)
	p.metrics.SetConnected(true)
	p.log.Info("synchronized", "pods", len(pods), "containers", len(containers), "updated", len(updates))
	return updates, nil
}

// RunPodSandbox gives the pod its headroom. What is wrong is told at CreateContainer: there the runtime's client sees it.
// There is no method for updates of pods: containerd 1.7 does not know that event, and closes the connection of a plugin
// that asks for it. The next comparison of headrooms does as well.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.pod(pod)
	return nil
}

func (p *Plugin) pod(pod *api.PodSandbox) {
	request, refused := p.evaluate(pod)
	if refused != nil && p.config.Load().OnInvalid == config.Reject {
		return
	}
	p.metrics.addPod(pod, request)
	ctx, cancel := context.WithTimeout(context.Background(), AnswerTime)
	defer cancel()
	if err := p.settle(ctx, pod, request); err != nil {
		p.log.Warn("policy not applied", "pod", podName(pod), "reason", err.Reason, "error", err.Text)
	}
}

// settle has the pod's headroom in force, if it has one.
func (p *Plugin) settle(ctx context.Context, pod *api.PodSandbox, request policy.Request) *policy.Error {
	claim, has, err := p.claim(pod, request)
	if err != nil || !has {
		return err
	}
	p.keeper.Set(pod.GetId(), claim)
	return p.keeper.Settle(ctx, pod.GetId())
}

// StopPodSandbox takes the pod's headroom back.
func (p *Plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.forget(pod)
	return nil
}

// RemovePodSandbox does so where the pod was not stopped.
func (p *Plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.forget(pod)
	return nil
}

func (p *Plugin) forget(pod *api.PodSandbox) {
	p.metrics.removePod(pod.GetId())
	p.keeper.Remove(pod.GetId())
	ctx, cancel := context.WithTimeout(context.Background(), AnswerTime)
	defer cancel()
	if err := p.keeper.Settle(ctx, pod.GetId()); err != nil {
		p.log.Warn("headroom not taken back yet", "pod", podName(pod), "error", err.Text)
	}
}

// CreateContainer gives a container all of its values, or none.
func (p *Plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container) (
	*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AnswerTime)
	defer cancel()
	settings := p.config.Load()
	log := p.log.With("pod", podName(pod), "container", container.GetName())

	request, refused := p.evaluate(pod)
	var files map[string]string
	if refused == nil || settings.OnInvalid == config.Ignore {
		if refused != nil {
			p.metrics.rejected(refused.Reason)
			log.Warn("annotations ignored", "reason", refused.Reason, "error", refused.Text)
		}
		files, refused = p.files(ctx, pod, request, request.Container(container.GetName()))
		if refused == nil {
			refused = p.settle(ctx, pod, request)
		}
	}
	if refused != nil {
		p.metrics.rejected(refused.Reason)
		action := settings.OnInvalid
		if refused.Reason == policy.Missing {
			action = settings.OnMissing
		}
		log.Warn("policy not applied", "reason", refused.Reason, "error", refused.Text, "action", action)
		if action == config.Reject {
			return nil, nil, errors.New(Name + ": " + refused.Text)
		}
		return nil, nil, nil
	}
	if headroom, _ := request.Headroom(); !headroom.Zero() {
		p.metrics.applied(policy.HeadroomKey)
	}
	if len(files) == 0 {
		return nil, nil, nil
	}
	adjustment := &api.ContainerAdjustment{}
	for file, value := range files {
		adjustment.AddLinuxUnified(file, value)
		p.metrics.applied(policy.Key(strings.TrimPrefix(file, "cpu.")))
	}
	log.Info("policy applied", "values", files)
	return adjustment, nil, nil
}

// UpdateContainer adds the container's values, so that they are there whatever else the update replaces. A policy that
// cannot be applied does not stop an update: the container is running.
func (p *Plugin) UpdateContainer(_ context.Context, pod *api.PodSandbox, container *api.Container, _ *api.LinuxResources) (
	[]*api.ContainerUpdate, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AnswerTime)
	defer cancel()
	request, _ := p.evaluate(pod)
	files, err := p.files(ctx, pod, request, request.Container(container.GetName()))
	if err != nil || len(files) == 0 {
		return nil, nil
	}
	update := &api.ContainerUpdate{}
	update.SetContainerId(container.GetId())
	for file, value := range files {
		update.AddLinuxUnified(file, value)
	}
	return []*api.ContainerUpdate{update}, nil
}

// files turns values into what the files of the container's cgroup take, if the kernel has all that the pod needs.
func (p *Plugin) files(ctx context.Context, pod *api.PodSandbox, request policy.Request, values policy.Values) (
	map[string]string, *policy.Error) {
	headroom, _ := request.Headroom()
	if len(values) == 0 && headroom.Zero() {
		return nil, nil
	}
	present := p.keeper.Present()
	if present == nil {
		if err := p.keeper.Settle(ctx, ""); err != nil {
			return nil, err
		}
		present = p.keeper.Present()
	}
	result := map[string]string{}
	for _, key := range policy.Keys {
		value, wanted := values[key]
		if !wanted && (key != policy.HeadroomKey || headroom.Zero()) {
			continue
		}
		if !present[key] {
			return nil, policy.Errorf(policy.Missing, "%s: this kernel has no %s", key, key.File())
		}
		if wanted {
			result[key.File()] = value
		}
	}
	if text, own := values[policy.HeadroomKey]; own {
		percent, err := p.between(ctx, pod, request, text)
		if err != nil {
			return nil, err
		}
		result[policy.HeadroomKey.File()] = percent
	}
	return result, nil
}

// between returns the headroom of a container towards the others of its pod, as the file takes it.
func (p *Plugin) between(ctx context.Context, pod *api.PodSandbox, request policy.Request, text string) (
	string, *policy.Error) {
	headroom, err := policy.ParseHeadroom(text)
	if err != nil {
		return "", policy.Errorf(policy.Invalid, "headroom: %v", err)
	}
	groups, err := cgroup.PodGroups(pod.GetLinux().GetCgroupParent())
	if err != nil {
		return "", policy.Errorf(policy.Failed, "headroom: %v", err)
	}
	cpus, late := bounded(ctx, p.reads, func() int {
		for _, group := range groups {
			if ok, _ := p.groups.Exists(group); ok {
				count, _ := cgroup.CPUs(p.groups, group)
				return count
			}
		}
		return 0
	})
	if late != nil {
		return "", late
	}
	if err := request.CheckMaximum(headroom, cpus); err != nil {
		return "", err
	}
	percent, err := headroom.Percent(cpus)
	if err != nil {
		return "", policy.Errorf(policy.Invalid, "headroom: %v", err)
	}
	return policy.FormatPercent(percent), nil
}

// inForce tells whether a running container has its values, so that it needs no update. crun keeps what belongs to a
// container one level further down.
func (p *Plugin) inForce(ctx context.Context, container *api.Container, files map[string]string) bool {
	group, err := cgroup.ContainerGroup(container.GetLinux().GetCgroupsPath())
	if err != nil {
		return false
	}
	same, late := bounded(ctx, p.reads, func() bool {
		return p.same(group, files) || p.same(group+"/container", files)
	})
	return late == nil && same
}

func (p *Plugin) same(group string, files map[string]string) bool {
	for file, value := range files {
		text, err := p.groups.Read(group, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.log.Debug("not compared", "group", group, "error", err)
		}
		if err != nil || text != value {
			return false
		}
	}
	return true
}

// bounded calls a function that may wait for a file system, and waits no longer than the context does. So many of them
// can be left behind as there is room in the channel.
func bounded[T any](ctx context.Context, room chan struct{}, call func() T) (T, *policy.Error) {
	result := make(chan T, 1)
	select {
	case room <- struct{}{}:
		go func() {
			defer func() { <-room }()
			result <- call()
		}()
	case <-ctx.Done():
	}
	select {
	case value := <-result:
		return value, nil
	case <-ctx.Done():
		var none T
		return none, policy.Errorf(policy.Timeout, "the cgroup tree did not answer in time")
	}
}

// SetConfig replaces the configuration. What is running is judged by it with the next Synchronize.
func (p *Plugin) SetConfig(settings config.Config) { p.config.Store(&settings) }
