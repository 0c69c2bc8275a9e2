// SPDX-License-Identifier: Apache-2.0

// Package cgroup reads and writes files of the cgroup tree, and keeps headrooms in it.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Groups are what the tree is used for. A group is named by its path below the root, "" being the root.
type Groups interface {
	// Read returns what a file says, without white space around it.
	Read(group, file string) (string, error)
	Write(group, file, value string) error
	// Mark returns what SetMark noted at a group, or "".
	Mark(group string) (string, error)
	// SetMark notes something at a group for as long as that exists; "" removes it.
	SetMark(group, mark string) error
	// Exists tells whether there is such a group or file.
	Exists(name string) (bool, error)
	Children(group string) ([]string, error)
}

// Tree is a mounted cgroup2 file system, or a directory that looks like one.
//
// Names come from the runtime. Nothing outside of the tree can be reached by them, and nothing through a symbolic link:
// the kernel resolves each name below the root, by openat2(2).
type Tree struct {
	root *os.File
	path string
}

// Open opens the directory. The error says what is wrong with it.
func Open(root string) (*Tree, error) {
	file, err := os.OpenFile(root, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("the root of the cgroup tree: %w", err)
	}
	return &Tree{file, root}, nil
}

// Close closes it.
func (t *Tree) Close() error { return t.root.Close() }

// IsCgroup2 tells whether it is a cgroup2 file system; that of cgroup v1 has none of our files.
func (t *Tree) IsCgroup2() bool {
	var stat unix.Statfs_t
	return unix.Fstatfs(int(t.root.Fd()), &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// open never waits: a FIFO with nobody at its other end is opened or refused at once, and then is no regular file.
func (t *Tree) open(name string, flags int) (*os.File, error) {
	if name == "" {
		name = "."
	}
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK
	}
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(int(t.root.Fd()), name, &how)
		// EAGAIN: something was renamed meanwhile, so that the kernel is not sure.
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: filepath.Join(t.path, name), Err: err}
		}
		return os.NewFile(uintptr(fd), filepath.Join(t.path, name)), nil
	}
}

func (t *Tree) openFile(group, file string, flags int) (*os.File, error) {
	opened, err := t.open(path.Join(group, file), flags)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", opened.Name())
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// readMost bytes are more than any file that is read has.
const readMost = 64 << 10

// Read is part of Groups.
func (t *Tree) Read(group, file string) (string, error) {
	opened, err := t.openFile(group, file, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }()
	text, err := io.ReadAll(io.LimitReader(opened, readMost))
	return strings.TrimSpace(string(text)), err
}

// Write is part of Groups. The value is written by a single call, as the kernel takes it.
func (t *Tree) Write(group, file, value string) error {
	opened, err := t.openFile(group, file, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = opened.WriteString(value + "\n")
	if err != nil {
		err = fmt.Errorf("the kernel refuses '%s': %w", value, err)
	}
	return errors.Join(err, opened.Close())
}

// markName is an extended attribute, which cgroups have since Linux 5.7; only who owns the directory can write it.
const markName = "user.cgroup-steer.headroom"

// Mark is part of Groups.
func (t *Tree) Mark(group string) (string, error) {
	directory, err := t.open(group, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer func() { _ = directory.Close() }()
	var buffer [128]byte
	size, err := unix.Fgetxattr(int(directory.Fd()), markName, buffer[:])
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: attribute %s: %w", directory.Name(), markName, err)
	}
	return string(buffer[:size]), nil
}

// SetMark is part of Groups.
func (t *Tree) SetMark(group, mark string) error {
	directory, err := t.open(group, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = directory.Close() }()
	if mark == "" {
		err = unix.Fremovexattr(int(directory.Fd()), markName)
	} else {
		err = unix.Fsetxattr(int(directory.Fd()), markName, []byte(mark), 0)
	}
	if err != nil && (mark != "" || !errors.Is(err, unix.ENODATA)) {
		return fmt.Errorf("%s: attribute %s: %w", directory.Name(), markName, err)
	}
	return nil
}

// Exists is part of Groups.
func (t *Tree) Exists(name string) (bool, error) {
	opened, err := t.open(name, unix.O_PATH)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, opened.Close()
}

// Children is part of Groups.
func (t *Tree) Children(group string) ([]string, error) {
	directory, err := t.open(group, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = directory.Close() }()
	entries, err := directory.ReadDir(-1)
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, path.Join(group, entry.Name()))
		}
	}
	return names, err
}

// Parent of a group; the root has none, and is its own.
func Parent(group string) string {
	parent, _, _ := cutLast(group)
	return parent
}

func cutLast(group string) (before, after string, found bool) {
	if i := strings.LastIndexByte(group, '/'); i >= 0 {
		return group[:i], group[i+1:], true
	}
	return "", group, false
}

// CPUs counts those that the children of a group may use: its effective cpuset, or that of the nearest group above
// which has the controller.
func CPUs(groups Groups, group string) (int, error) {
	for {
		text, err := groups.Read(group, "cpuset.cpus.effective")
		if err == nil {
			return countCPUs(text)
		}
		if !errors.Is(err, os.ErrNotExist) || group == "" {
			return 0, err
		}
		group = Parent(group)
	}
}

// countCPUs counts those of a list such as "0-3,8".
func countCPUs(list string) (int, error) {
	count := 0
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.ParseUint(low, 10, 16)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || to < from {
			return 0, fmt.Errorf("'%s' is not a list of CPUs such as 0-3,8", list)
		}
		count += int(to-from) + 1
	}
	return count, nil
}
