// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"path"
	"strings"
)

// PodGroups returns where the group of a pod may be, the likelier one first, given the cgroup parent of its sandbox.
//
// With the systemd driver that is a slice, and the last part of its name alone tells the path (so do runc and crun):
// "a-b.slice" is a.slice/a-b.slice. With the cgroupfs driver it is the path itself.
func PodGroups(cgroupParent string) ([]string, error) {
	literal, err := clean(cgroupParent)
	if err != nil {
		return nil, err
	}
	if literal == "" {
		return nil, fmt.Errorf("the pod has no cgroup of its own (its cgroup parent is '%s')", cgroupParent)
	}
	if !strings.HasSuffix(literal, ".slice") {
		return []string{literal}, nil
	}
	expanded, err := expandSlice(path.Base(literal))
	if err != nil || expanded == literal {
		return []string{literal}, err
	}
	return []string{expanded, literal}, nil
}

// ContainerGroup returns where the group of a container is, given its cgroups path: "slice:prefix:name" with the systemd
// driver, else the path itself.
func ContainerGroup(cgroupsPath string) (string, error) {
	parts := strings.Split(cgroupsPath, ":")
	if len(parts) != 3 {
		group, err := clean(cgroupsPath)
		if err == nil && group == "" {
			err = fmt.Errorf("the container has no cgroup of its own")
		}
		return group, err
	}
	parent, err := expandSlice(parts[0])
	if err != nil {
		return "", err
	}
	if strings.Contains(parts[1]+parts[2], "/") {
		return "", fmt.Errorf("'%s' is not the name of a scope", parts[1]+"-"+parts[2])
	}
	return clean(path.Join(parent, parts[1]+"-"+parts[2]+".scope"))
}

// clean makes a path below the root of what may begin with a slash, and refuses what leads upwards.
func clean(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || strings.ContainsRune(part, 0) {
			return "", fmt.Errorf("'%s' is no path below the root of the cgroup tree", name)
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

// expandSlice returns the path of a slice: each dash in the name of one is a level.
func expandSlice(name string) (string, error) {
	stem, isSlice := strings.CutSuffix(name, ".slice")
	if name == "" || name == "-.slice" {
		return "", fmt.Errorf("the pod has no cgroup of its own (its slice is the root)")
	}
	if !isSlice || stem == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(stem, "-") ||
		strings.HasSuffix(stem, "-") || strings.Contains(stem, "--") {
		return "", fmt.Errorf("'%s' is not the name of a slice", name)
	}
	var result []string
	for i, c := range stem + "-" {
		if c == '-' {
			result = append(result, stem[:i]+".slice")
		}
	}
	return strings.Join(result, "/"), nil
}
