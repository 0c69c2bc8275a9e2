// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/prometheus/client_golang/prometheus"

	"cgroup-steer/nri/internal/cgroup"
	"cgroup-steer/nri/internal/policy"
)

const (
	prefix = "cgroup_steer_nri_"
	// podsMost is the largest number of pods that have counters of the kernel: more than the pods of a node.
	podsMost = 512
	// scrapeTime is how long the kernel's counters may take.
	scrapeTime = 2 * time.Second
)

// Metrics are what Prometheus reads.
type Metrics struct {
	Registry    *prometheus.Registry
	appliedN    *prometheus.CounterVec
	rejectedN   *prometheus.CounterVec
	configValid prometheus.Gauge
	connected   prometheus.Gauge

	groups cgroup.Groups
	reads  chan struct{}
	mutex  sync.Mutex
	pods   map[string]podGroup // by id; those that have a policy
}

type podGroup struct {
	namespace, name string
	groups          []string
}

var (
	podLabels = []string{"namespace", "pod"}
	statDesc  = prometheus.NewDesc(prefix+"pod_stat_total",
		"Counters of the kernel for a pod with a policy: keys of cpu.stat. hint_ and gang_ are summed over the containers that "+
			"there are, headroom_ are of the pod.", append(podLabels, "stat"), nil)
	headroomDesc = prometheus.NewDesc(prefix+"pod_headroom_ratio",
		"cpu.headroom of the pod: the part of the CPUs that its siblings leave idle.", podLabels, nil)
	demandDesc = prometheus.NewDesc(prefix+"pod_headroom_demand_ratio",
		"The largest part of the CPUs that the pod itself has to leave idle for others.", podLabels, nil)
)

// NewMetrics makes them, all counters with 0.
func NewMetrics(groups cgroup.Groups, version string) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(), groups: groups, reads: make(chan struct{}, 1), pods: map[string]podGroup{},
		appliedN: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "applied_total",
			Help: "Values applied to new containers, by key; a pod's headroom counts with each of its containers."}, []string{"key"}),
		rejectedN: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "rejected_total",
			Help: "New containers whose policy was not applied, by reason; whether they were created is the configuration's."},
			[]string{"reason"}),
		configValid: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "config_valid",
			Help: "1 if the configuration file is valid; 0 if it is not, and the last valid one holds."}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "connected",
			Help: "1 if the runtime is connected, and has told which pods there are."}),
	}
	for _, key := range []policy.Key{policy.Hint, policy.Gang, policy.GangScope, policy.HeadroomKey} {
		m.appliedN.WithLabelValues(string(key))
	}
	for _, reason := range policy.Reasons {
		m.rejectedN.WithLabelValues(string(reason))
	}
	m.configValid.Set(1)
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "build_info", Help: "1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": version}})
	info.Set(1)
	m.Registry.MustRegister(m.appliedN, m.rejectedN, m.configValid, m.connected, info, m)
	return m
}

func (m *Metrics) applied(key policy.Key)        { m.appliedN.WithLabelValues(string(key)).Inc() }
func (m *Metrics) rejected(reason policy.Reason) { m.rejectedN.WithLabelValues(string(reason)).Inc() }

// SetConfigValid says whether the configuration file is valid.
func (m *Metrics) SetConfigValid(valid bool) { m.configValid.Set(number(valid)) }

// SetConnected says whether the runtime is connected.
func (m *Metrics) SetConnected(connected bool) { m.connected.Set(number(connected)) }

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (m *Metrics) setPods(pods map[string]*api.PodSandbox, requests map[string]policy.Request) {
	m.mutex.Lock()
	m.pods = map[string]podGroup{}
	m.mutex.Unlock()
	for id, request := range requests {
		m.addPod(pods[id], request)
	}
}

func (m *Metrics) addPod(pod *api.PodSandbox, request policy.Request) {
	groups, err := cgroup.PodGroups(pod.GetLinux().GetCgroupParent())
	if err != nil || request.Empty() {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.pods) < podsMost {
		m.pods[pod.GetId()] = podGroup{pod.GetNamespace(), pod.GetName(), groups}
	}
}

func (m *Metrics) removePod(id string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.pods, id)
}

// Describe is part of prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- statDesc
	out <- headroomDesc
	out <- demandDesc
}

// Collect is part of prometheus.Collector. The kernel's counters are read when they are asked for, one scrape at a time.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mutex.Lock()
	pods := make([]podGroup, 0, len(m.pods))
	seen := map[[2]string]bool{}
	for _, pod := range m.pods {
		// A pod that is made anew has the same name for a moment, and a metric must not be there twice.
		if name := [2]string{pod.namespace, pod.name}; !seen[name] {
			seen[name] = true
			pods = append(pods, pod)
		}
	}
	m.mutex.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	metrics, _ := bounded(ctx, m.reads, func() []prometheus.Metric {
		var result []prometheus.Metric
		for _, pod := range pods {
			result = append(result, m.read(pod)...)
		}
		return result
	})
	for _, metric := range metrics {
		out <- metric
	}
}

func (m *Metrics) read(pod podGroup) []prometheus.Metric {
	var result []prometheus.Metric
	labels := []string{pod.namespace, pod.name}
	for _, group := range pod.groups {
		if ok, _ := m.groups.Exists(group); !ok {
			continue
		}
		counters := map[string]float64{}
		m.count(group, counters, "hint_", "gang_", "headroom_")
		children, _ := m.groups.Children(group)
		for _, child := range children {
			m.count(child, counters, "hint_", "gang_")
		}
		for name, value := range counters {
			result = append(result, prometheus.MustNewConstMetric(statDesc, prometheus.CounterValue, value, append(labels, name)...))
		}
		if text, err := m.groups.Read(group, "cpu.headroom"); err == nil {
			if percent, err := policy.ParsePercent(text); err == nil {
				result = append(result, prometheus.MustNewConstMetric(headroomDesc, prometheus.GaugeValue, ratio(percent), labels...))
			}
		}
		if text, err := m.groups.Read(group, "cpu.headroom.stat"); err == nil {
			for line := range strings.Lines(text) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				if percent, err := policy.ParsePercent(value); err == nil && key == "demand" {
					result = append(result, prometheus.MustNewConstMetric(demandDesc, prometheus.GaugeValue, ratio(percent), labels...))
				}
			}
		}
		break
	}
	return result
}

func ratio(hundredths uint) float64 { return float64(hundredths) / policy.HeadroomAll }

// count adds the kernel's counters of a group. They are about the tasks directly in it, so those of its children are
// apart; but it is the pod that others hold back, and what is between its containers is another thing.
func (m *Metrics) count(group string, counters map[string]float64, prefixes ...string) {
	text, err := m.groups.Read(group, "cpu.stat")
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			continue
		}
		if number, err := strconv.ParseUint(value, 10, 64); err == nil {
			counters[key] += float64(number)
		}
	}
}
