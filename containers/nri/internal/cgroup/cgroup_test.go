// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cgroup-steer/nri/internal/policy"
)

func newTree(t *testing.T, groups ...string) (*Tree, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	put(t, filepath.Join(dir, "cpuset.cpus.effective"), "0-7")
	for _, group := range groups {
		put(t, filepath.Join(dir, group, "cpu.headroom"), "0.00")
		put(t, filepath.Join(dir, group, "cpu.weight"), "100")
	}
	tree, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree, dir
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text+"\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func percent(t *testing.T, text string) policy.Headroom {
	t.Helper()
	headroom, err := policy.ParseHeadroom(text)
	if err != nil {
		t.Fatal(err)
	}
	return headroom
}

func claim(t *testing.T, group, headroom string, node bool) Claim {
	return Claim{Pod: group, Groups: []string{group}, Headroom: percent(t, headroom), Node: node, Check: func(int) *policy.Error { return nil }}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestPaths(t *testing.T) {
	for parent, wanted := range map[string]string{
		"kubepods-burstable-pod1_2.slice":     "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice kubepods-burstable-pod1_2.slice",
		"/kubepods.slice/kubepods-pod1.slice": "kubepods.slice/kubepods-pod1.slice", "/kubepods/burstable/pod1": "kubepods/burstable/pod1", "a//b/./c/": "a/b/c",
		"system.slice": "system.slice", "/a/b-c.slice": "b.slice/b-c.slice a/b-c.slice",
		"": "error", "/": "error", "-.slice": "error", ".slice": "error", "a--b.slice": "error", "-a.slice": "error", "a-.slice": "error",
		"../x": "error", "/a/../../x": "error", "a/..": "error", "a\x00b": "error",
	} {
		groups, err := PodGroups(parent)
		got := strings.Join(groups, " ")
		if err != nil {
			got = "error"
		}
		if got != wanted {
			t.Errorf("%q: %s, %v", parent, got, err)
		}
	}
	for path, wanted := range map[string]string{
		"kubepods-pod1.slice:cri-containerd:abc": "kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope", "/kubepods/pod1/abc": "kubepods/pod1/abc",
		"": "error", "x:y:z": "error", "a.slice:../..:z": "error", "a.slice:x/y:z": "error", "a:b:c:d": "a:b:c:d",
	} {
		got, err := ContainerGroup(path)
		if err != nil {
			got = "error"
		}
		if got != wanted {
			t.Errorf("%q: %s, %v", path, got, err)
		}
	}
}

// Nothing outside of the root is read or written, nor anything through a symbolic link, whatever a name says.
func TestNothingOutside(t *testing.T) {
	tree, dir := newTree(t, "a/b")
	outside := filepath.Join(filepath.Dir(dir), "outside")
	put(t, filepath.Join(outside, "cpu.headroom"), "7.00")
	for name, to := range map[string]string{"link": outside, "up": "..", "inside": "a/b"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "cpu.headroom"), filepath.Join(dir, "a/cpu.headroom")); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"link", "up/outside", "inside", "../outside", outside, "a"} {
		if text, err := tree.Read(group, "cpu.headroom"); err == nil {
			t.Errorf("%s: read %s", group, text)
		}
		if err := tree.Write(group, "cpu.headroom", "99.00"); err == nil {
			t.Errorf("%s: written", group)
		}
		if group == "a" {
			continue
		}
		if err := tree.SetMark(group, "x"); err == nil {
			t.Errorf("%s: marked", group)
		}
		if ok, _ := tree.Exists(group); ok {
			t.Errorf("%s: is there", group)
		}
	}
	if text := get(t, filepath.Join(outside, "cpu.headroom")); text != "7.00" {
		t.Error(text)
	}
	if text := get(t, filepath.Join(dir, "a/b/cpu.headroom")); text != "0.00" {
		t.Error(text)
	}
	// A pod whose group is a link, or below one, gets nothing.
	keeper := NewKeeper(tree, quiet())
	if err := keeper.settle(map[string]Claim{"1": claim(t, "inside", "10%", false)}, true)["1"]; err == nil || err.Reason != policy.Failed {
		t.Error(err)
	}
}

// What is no regular file is refused at once, though nobody is at the other end.
func TestFIFO(t *testing.T) {
	tree, dir := newTree(t, "pod")
	_ = os.Remove(filepath.Join(dir, "pod/cpu.headroom"))
	if err := syscall.Mkfifo(filepath.Join(dir, "pod/cpu.headroom"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Read("pod", "cpu.headroom"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	if err := tree.Write("pod", "cpu.headroom", "1.00"); err == nil {
		t.Error("written")
	}
}

func TestCPUs(t *testing.T) {
	tree, dir := newTree(t, "a/b")
	put(t, filepath.Join(dir, "a/cpuset.cpus.effective"), "1-2,5")
	for group, wanted := range map[string]int{"": 8, "a": 3, "a/b": 3} {
		if got, err := CPUs(tree, group); got != wanted || err != nil {
			t.Errorf("%s: %d, %v", group, got, err)
		}
	}
	for _, list := range []string{"", "x", "3-1", "1,", "-1", "1-"} {
		if count, err := countCPUs(list); err == nil {
			t.Errorf("%q: %d", list, count)
		}
	}
}

func values(t *testing.T, dir string, groups ...string) string {
	var words []string
	for _, group := range groups {
		words = append(words, get(t, filepath.Join(dir, group, "cpu.headroom")))
	}
	return strings.Join(words, " ")
}

func TestAncestors(t *testing.T) {
	all := []string{"k", "k/q", "k/q/1", "k/q/2", "k/3"}
	tree, dir := newTree(t, all...)
	put(t, filepath.Join(dir, "k/cpuset.cpus.effective"), "0-3") // k has eight CPUs beside it, its children four
	keeper := NewKeeper(tree, quiet())
	step := func(what, wanted string, claims map[string]Claim) {
		t.Helper()
		for id, err := range keeper.settle(claims, false) {
			if err != nil {
				t.Errorf("%s, %s: %v", what, id, err)
			}
		}
		if got := values(t, dir, all...); got != wanted {
			t.Errorf("%s: %s, not %s", what, got, wanted)
		}
	}
	one, two, three := claim(t, "k/q/1", "1", true), claim(t, "k/q/2", "10%", false), claim(t, "k/3", "30%", true)
	step("CPUs on each level", "12.50 25.00 25.00 10.00 0.00", map[string]Claim{"1": one, "2": two})
	step("the largest", "30.00 25.00 25.00 10.00 30.00", map[string]Claim{"1": one, "2": two, "3": three})
	put(t, filepath.Join(dir, "k/3/cgroup.events"), "populated 0\nfrozen 0")
	step("one without processes", "12.50 25.00 25.00 10.00 30.00", map[string]Claim{"1": one, "2": two, "3": three})
	put(t, filepath.Join(dir, "k/3/cgroup.events"), "populated 1\nfrozen 0")
	step("and with", "30.00 0.00 0.00 0.00 30.00", map[string]Claim{"3": three})
	if err := os.RemoveAll(filepath.Join(dir, "k/q")); err != nil {
		t.Fatal(err)
	}
	all = []string{"k", "k/3"}
	step("none", "0.00 0.00", map[string]Claim{})
	if mark, err := tree.Mark("k"); mark != "" || err != nil || len(keeper.marked) != 0 {
		t.Errorf("a mark is left: %s, %v, %v", mark, err, keeper.marked)
	}
}

// A process may end anywhere between the writes of a change. Whoever comes after it never takes what was ours for
// somebody else's, nor the other way round.
func TestEndAnywhere(t *testing.T) {
	for _, others := range []uint{0, 500, 2000} {
		for _, from := range []uint{0, 1000, 3000} {
			for _, to := range []uint{0, 1000, 3000} {
				for writes := range 5 {
					tree, dir := newTree(t, "g")
					put(t, filepath.Join(dir, "g/cpu.headroom"), policy.FormatPercent(others))
					if err := NewKeeper(tree, quiet()).give("g", from); err != nil {
						t.Fatal(err)
					}
					mortal := &mortal{Groups: tree, left: writes}
					_ = NewKeeper(mortal, quiet()).give("g", to)
					what := fmt.Sprintf("others %d, from %d to %d, ended after %d writes", others, from, to, writes)
					for _, wanted := range []uint{1500, 0} {
						if err := NewKeeper(tree, quiet()).give("g", wanted); err != nil {
							t.Errorf("%s: %v", what, err)
						}
						if got := values(t, dir, "g"); got != policy.FormatPercent(max(others, wanted)) {
							t.Errorf("%s: with %d it is %s", what, wanted, got)
						}
					}
				}
			}
		}
	}
}

// mortal refuses all writes but the first few.
type mortal struct {
	Groups
	left int
}

var errDead = errors.New("the process has ended")

func (m *mortal) Write(group, file, value string) error {
	if m.left--; m.left < 0 {
		return errDead
	}
	return m.Groups.Write(group, file, value)
}

func (m *mortal) SetMark(group, mark string) error {
	if m.left--; m.left < 0 {
		return errDead
	}
	return m.Groups.SetMark(group, mark)
}

func TestWhatIsNoMarkOfOurs(t *testing.T) {
	tree, dir := newTree(t, "g")
	for _, text := range []string{"x", "1.00", "1.00 x", "200.00 0.00"} {
		put(t, filepath.Join(dir, "g/cpu.headroom"), "5.00")
		if err := tree.SetMark("g", text); err != nil {
			t.Fatal(err)
		}
		if err := NewKeeper(tree, quiet()).give("g", 0); err != nil {
			t.Error(err)
		}
		if got := values(t, dir, "g"); got != "5.00" {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// hanging is a file system that does not answer.
type hanging struct {
	Groups
	hang    atomic.Bool
	release chan struct{}
}

func (h *hanging) Exists(name string) (bool, error) {
	if h.hang.Load() {
		<-h.release
	}
	return h.Groups.Exists(name)
}

func TestHangingFileSystem(t *testing.T) {
	tree, dir := newTree(t, "k", "k/1")
	groups := &hanging{Groups: tree, release: make(chan struct{})}
	keeper := NewKeeper(groups, quiet())
	run(t, keeper, time.Hour)
	keeper.Set("1", claim(t, "k/1", "10%", true))
	settle := func(most time.Duration) *policy.Error {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		return keeper.Settle(ctx, "1")
	}
	if err := settle(10 * time.Second); err != nil || values(t, dir, "k", "k/1") != "10.00 10.00" {
		t.Fatal(err)
	}
	groups.hang.Store(true)
	keeper.Set("1", claim(t, "k/1", "20%", true))
	for range 100 { // more than there could be places to wait
		if err := settle(time.Millisecond); err == nil || err.Reason != policy.Timeout {
			t.Fatal(err)
		}
	}
	if keeper.Stuck() <= 0 {
		t.Error("not stuck")
	}
	groups.hang.Store(false)
	close(groups.release)
	if err := settle(10 * time.Second); err != nil || values(t, dir, "k", "k/1") != "20.00 20.00" || keeper.Stuck() > time.Second {
		t.Error(err, values(t, dir, "k", "k/1"))
	}
}

// run has the keeper work until the test ends, and its tree is closed.
func run(t *testing.T, keeper *Keeper, interval time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keeper.Run(t.Context(), interval)
	}()
	t.Cleanup(func() { <-ended })
}

// Whatever changes a value is made undone after a while, without an event.
func TestAgainAfterAWhile(t *testing.T) {
	tree, dir := newTree(t, "k", "k/1")
	keeper := NewKeeper(tree, quiet())
	keeper.Set("1", claim(t, "k/1", "10%", false))
	run(t, keeper, time.Millisecond)
	for _, value := range []string{"0.00", "5.00", "0.00"} {
		put(t, filepath.Join(dir, "k/1/cpu.headroom"), value)
		for end := time.Now().Add(10 * time.Second); values(t, dir, "k/1") != "10.00"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s stays", value)
			}
		}
	}
}

func TestErrorsOfAClaim(t *testing.T) {
	tree, dir := newTree(t, "k", "k/1", "k/2", "k/3")
	for _, group := range []string{"k/2", "k"} {
		_ = os.Remove(filepath.Join(dir, group, "cpu.headroom"))
	}
	refused := claim(t, "k/1", "10%", false)
	refused.Check = func(cpus int) *policy.Error { return policy.Errorf(policy.Forbidden, "%d CPUs", cpus) }
	got := NewKeeper(tree, quiet()).settle(map[string]Claim{
		"gone": claim(t, "k/9", "10%", false), "missing": claim(t, "k/2", "10%", false), "refused": refused, "many": claim(t, "k/1", "9", false),
		"above": claim(t, "k/3", "10%", true),
	}, false)
	for id, wanted := range map[string]string{"gone": "failed there is no cgroup k/9", "missing": "missing k/2 has no cpu.headroom", "refused": "forbidden 8 CPUs",
		"many": "invalid more than the 8 CPUs", "above": "missing k has no cpu.headroom"} {
		reason, part, _ := strings.Cut(wanted, " ")
		if err := got[id]; err == nil || string(err.Reason) != reason || !strings.Contains(err.Text, part) {
			t.Errorf("%s: %+v", id, err)
		}
	}
}

// The search for what was left does not go into pods.
func TestSearch(t *testing.T) {
	tree, _ := newTree(t, "k", "k/old", "k/pod", "k/pod/inner")
	for _, group := range []string{"k", "k/old", "k/pod/inner"} {
		if err := tree.SetMark(group, "0.00 0.00"); err != nil {
			t.Fatal(err)
		}
	}
	keeper := NewKeeper(tree, quiet())
	keeper.settle(map[string]Claim{"1": claim(t, "k/pod", "10%", false)}, true)
	for group, wanted := range map[string]string{"k": "", "k/old": "", "k/pod": "0.00 10.00", "k/pod/inner": "0.00 0.00"} {
		if mark, err := tree.Mark(group); mark != wanted || err != nil {
			t.Errorf("%s: '%s', %v", group, mark, err)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	tree, _ := newTree(t)
	if tree.IsCgroup2() {
		t.Error("a directory is no cgroup tree")
	}
}
