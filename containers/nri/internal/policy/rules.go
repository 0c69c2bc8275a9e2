// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"path"
	"slices"
	"strings"
)

// Pod is what the rules look at.
type Pod struct {
	Namespace   string
	Labels      map[string]string
	Annotations map[string]string
}

// Selector picks pods: by namespace (names, or shell patterns such as "team-*"; none: all), and by labels that all have
// to be there with that value ("*": with any).
type Selector struct {
	Namespaces []string          `yaml:"namespaces,omitempty"`
	Labels     map[string]string `yaml:"labels,omitempty"`
}

// Matches tells whether it picks a pod.
func (s Selector) Matches(pod Pod) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, pod.Namespace)
		return ok && err == nil
	}
	if len(s.Namespaces) > 0 && !slices.ContainsFunc(s.Namespaces, matches) {
		return false
	}
	for name, wanted := range s.Labels {
		if value, ok := pod.Labels[name]; !ok || (wanted != "*" && value != wanted) {
			return false
		}
	}
	return true
}

// Allow lets the pods that it selects use some keys.
type Allow struct {
	Selector `yaml:",inline"`
	Keys     []Key `yaml:"keys"`
	// The largest headroom, as ParseHeadroom reads it; DefaultMaxHeadroom where there is none.
	MaxHeadroom string `yaml:"maxHeadroom,omitempty"`
	// Where a headroom may land; at the pod where there is none.
	Scopes []string `yaml:"scopes,omitempty"`
}

// DefaultMaxHeadroom leaves half of the machine to the others.
const DefaultMaxHeadroom = "50%"

// Default is what pods have that do not ask for anything else.
type Default struct {
	Selector `yaml:",inline"`
	Texts    map[string]any `yaml:",inline"` // by key, as they were written
	Values   Values         `yaml:"-"`       // the same, checked
}

// Rules are those of the cluster.
type Rules struct {
	Domain   string
	Defaults []Default
	Allow    []Allow
}

// Request is what holds for a pod.
type Request struct {
	annotations Annotations
	defaults    Values
	maximums    []Headroom // that an annotation's headroom keeps to one of; nil: any, it is the cluster's own
}

// Evaluate reads a pod's annotations and judges them by the rules.
func (r Rules) Evaluate(pod Pod) (Request, *Error) {
	annotations, err := ParseAnnotations(r.Domain, pod.Annotations)
	if err != nil {
		return Request{}, err
	}
	request := Request{annotations: annotations, defaults: r.defaults(pod)}
	var rules []Allow
	for _, rule := range r.Allow {
		if rule.Matches(pod) {
			rules = append(rules, rule)
		}
	}
	for _, key := range annotations.keys() {
		if !slices.ContainsFunc(rules, func(rule Allow) bool { return rule.allows(key) }) {
			return Request{}, Errorf(Forbidden, "annotation %s.%s: no rule of the plugin's configuration allows '%s' to "+
				"this pod of namespace '%s'", key, r.Domain, key, pod.Namespace)
		}
	}
	_, scope := annotations.Pod(request.defaults)
	headroom := slices.DeleteFunc(rules, func(rule Allow) bool { return !rule.allows(HeadroomKey) })
	if _, asked := annotations.pod[HeadroomScope]; asked {
		headroom = slices.DeleteFunc(headroom, func(rule Allow) bool { return !rule.allowsScope(scope) })
		if len(headroom) == 0 {
			return Request{}, Errorf(Forbidden, "annotation %s.%s: no rule of the plugin's configuration allows the scope "+
				"'%s' to this pod of namespace '%s'", HeadroomScope, r.Domain, scope, pod.Namespace)
		}
	}
	for _, rule := range headroom {
		request.maximums = append(request.maximums, rule.maximum())
	}
	return request, nil
}

// WithoutAnnotations is what holds for a pod whose annotations are ignored.
func (r Rules) WithoutAnnotations(pod Pod) Request { return Request{defaults: r.defaults(pod)} }

func (r Rules) defaults(pod Pod) Values {
	var matching []Values
	for _, rule := range r.Defaults {
		if rule.Matches(pod) {
			matching = append(matching, rule.Values)
		}
	}
	return MergeDefaults(matching...)
}

// allows: whoever may have a headroom may say where, as far as the scopes of the rule go.
func (a Allow) allows(key Key) bool {
	return slices.Contains(a.Keys, key) || (key == HeadroomScope && slices.Contains(a.Keys, HeadroomKey))
}

func (a Allow) allowsScope(scope string) bool {
	return slices.Contains(a.Scopes, scope) || (len(a.Scopes) == 0 && scope == ScopePod)
}

func (a Allow) maximum() Headroom {
	text := a.MaxHeadroom
	if text == "" {
		text = DefaultMaxHeadroom
	}
	headroom, _ := ParseHeadroom(text) // The configuration was checked when it was read.
	return headroom
}

// Container returns the values for a container's cgroup, by key.
func (q Request) Container(name string) Values { return q.annotations.Container(name, q.defaults) }

// Headroom returns that of the pod, and whether the groups above it are to have it too.
func (q Request) Headroom() (headroom Headroom, node bool) {
	headroom, scope := q.annotations.Pod(q.defaults)
	return headroom, scope == ScopeNode
}

// CheckMaximum tells whether a headroom that an annotation asks for is too large, given how many CPUs the others may use.
func (q Request) CheckMaximum(headroom Headroom, cpus int) *Error {
	percent, err := headroom.Percent(cpus)
	if err != nil {
		return Errorf(Invalid, "headroom: %v", err)
	}
	var texts []string
	for _, maximum := range q.maximums {
		if most, err := maximum.Percent(cpus); err != nil || percent <= most {
			return nil // More CPUs than there are are no limit.
		}
		texts = append(texts, maximum.String())
	}
	if texts == nil {
		return nil
	}
	return Errorf(Forbidden, "headroom: %s of %d CPUs is %s%%; the plugin's configuration allows at most %s to this pod",
		headroom, cpus, FormatPercent(percent), strings.Join(texts, " or "))
}

// PodMaximum is CheckMaximum for the headroom of the pod; one that is the cluster's default has none.
func (q Request) PodMaximum(cpus int) *Error {
	headroom, _ := q.Headroom()
	if _, own := q.annotations.pod[HeadroomKey]; own {
		return q.CheckMaximum(headroom, cpus)
	}
	if _, err := headroom.Percent(cpus); err != nil {
		return Errorf(Invalid, "headroom: %v", err)
	}
	return nil
}

// Empty tells whether nothing holds for any container of the pod, nor for the pod itself.
func (q Request) Empty() bool {
	return len(q.annotations.pod) == 0 && len(q.annotations.containers) == 0 && len(q.defaults) == 0
}
