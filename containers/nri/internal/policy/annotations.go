// SPDX-License-Identifier: Apache-2.0

// Package policy reads what pods ask for, by the kernel's rules and by those of the cluster. It touches no file.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Key is what can be asked for: the first part of an annotation's name.
type Key string

// The keys. Each but HeadroomScope has a file of its own in a cgroup.
const (
	Hint          Key = "hint"
	Gang          Key = "gang"
	GangScope     Key = "gang.scope"
	HeadroomKey   Key = "headroom"
	HeadroomScope Key = "headroom.scope"
)

// Keys in the order in which they are told.
var Keys = []Key{Hint, Gang, GangScope, HeadroomKey, HeadroomScope}

// File returns the cgroup file that a key is for.
func (k Key) File() string { return "cpu." + string(k) }

// Check checks a value as the kernel does, and returns it as it is written: to the file, or, for a headroom, as it came.
func (k Key) Check(value string) (string, error) {
	if err := checkText(value); err != nil {
		return "", err
	}
	switch k {
	case Hint:
		return checkHint(value)
	case Gang:
		return checkGang(value)
	case GangScope:
		return checkWord(value, Scopes)
	case HeadroomScope:
		return checkWord(value, HeadroomScopes)
	default:
		_, err := ParseHeadroom(value)
		return trim(value), err
	}
}

// Reason is why a policy was not applied. There are few of them, so that they can be the label of a metric.
type Reason string

// The reasons.
const (
	Invalid   Reason = "invalid"   // not understood
	Forbidden Reason = "forbidden" // not allowed by the configuration
	Missing   Reason = "missing"   // the kernel does not have the file
	Timeout   Reason = "timeout"   // the file system did not answer in time
	Failed    Reason = "failed"    // the kernel refused, or a file could not be used
)

// Reasons lists them all.
var Reasons = []Reason{Invalid, Forbidden, Missing, Timeout, Failed}

// Error is a policy that was not applied, and why.
type Error struct {
	Reason Reason
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Errorf makes an Error.
func Errorf(reason Reason, format string, arguments ...any) *Error {
	return &Error{reason, fmt.Sprintf(format, arguments...)}
}

// Values by key.
type Values map[Key]string

// Annotations are what a pod asks for.
type Annotations struct {
	pod        Values
	containers map[string]Values
}

// ParseAnnotations picks those of our domain, and checks their names and values. All are judged, whichever container
// they are for: a pod is right as a whole, or refused as a whole. The error names each that is wrong.
func ParseAnnotations(domain string, annotations map[string]string) (Annotations, *Error) {
	result := Annotations{pod: Values{}, containers: map[string]Values{}}
	var wrong []string
	// "hint.DOMAIN/pod" sorts behind "hint.DOMAIN", so it replaces what that said.
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		prefix, suffix, hasSuffix := strings.Cut(name, "/")
		text, ours := strings.CutSuffix(prefix, "."+domain)
		if prefix == domain {
			text, ours = "", true
		}
		if !ours {
			continue
		}
		if err := result.take(Key(text), suffix, hasSuffix, annotations[name]); err != nil {
			wrong = append(wrong, fmt.Sprintf("annotation %s: %v", escape(name), err))
		}
	}
	if wrong != nil {
		return Annotations{}, &Error{Invalid, strings.Join(wrong, "; ")}
	}
	return result, nil
}

func (a *Annotations) take(key Key, suffix string, hasSuffix bool, value string) error {
	if !slices.Contains(Keys, key) {
		names := keyNames()
		return fmt.Errorf("unknown key %s%s; known: %s", quote(string(key)), Suggestion(string(key), names),
			strings.Join(names, " "))
	}
	value, err := key.Check(value)
	if err != nil {
		return err
	}
	container, forContainer := strings.CutPrefix(suffix, "container.")
	switch {
	case !hasSuffix || suffix == "pod":
		a.pod[key] = value
	case !forContainer || container == "":
		return fmt.Errorf("%s is neither 'pod' nor 'container.NAME'", quote(suffix))
	case key == HeadroomScope:
		return fmt.Errorf("where the headroom lands is asked for the pod, not for a container; " +
			"that of a container is between the containers of its pod")
	default:
		if a.containers[container] == nil {
			a.containers[container] = Values{}
		}
		a.containers[container][key] = value
	}
	return nil
}

func keyNames() []string {
	names := make([]string, len(Keys))
	for i, key := range Keys {
		names[i] = string(key)
	}
	return names
}

// Keys that the annotations ask for, in the order of Keys.
func (a Annotations) keys() []Key {
	return slices.DeleteFunc(slices.Clone(Keys), func(key Key) bool {
		_, asked := a.pod[key]
		for _, values := range a.containers {
			_, forContainer := values[key]
			asked = asked || forContainer
		}
		return !asked
	})
}

// Container returns what holds for a container, by key: its own annotation before the pod's before the defaults'.
// The headroom among them is that between the containers of the pod, which only an annotation for the container asks for.
func (a Annotations) Container(name string, defaults Values) Values {
	result := Values{}
	for _, key := range []Key{Hint, Gang, GangScope} {
		if value, ok := first(key, a.containers[name], a.pod, defaults); ok {
			result[key] = value
		}
	}
	if value, ok := a.containers[name][HeadroomKey]; ok {
		result[HeadroomKey] = value
	}
	return result
}

// Pod returns the headroom of the pod, and where it lands.
func (a Annotations) Pod(defaults Values) (headroom Headroom, scope string) {
	value, _ := first(HeadroomKey, a.pod, defaults)
	headroom, _ = ParseHeadroom(value) // It was checked when it was taken; without one it is none.
	if scope, _ = first(HeadroomScope, a.pod, defaults); scope == "" {
		scope = ScopePod
	}
	return headroom, scope
}

func first(key Key, values ...Values) (string, bool) {
	for _, each := range values {
		if value, ok := each[key]; ok {
			return value, true
		}
	}
	return "", false
}

// MergeDefaults returns those values of the maps that come first.
func MergeDefaults(values ...Values) Values {
	result := Values{}
	for _, each := range slices.Backward(values) {
		maps.Copy(result, each)
	}
	return result
}
