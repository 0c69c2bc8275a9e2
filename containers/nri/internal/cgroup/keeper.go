// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cgroup-steer/nri/internal/policy"
)

const headroomFile = "cpu.headroom"

// Claim is a pod's headroom.
type Claim struct {
	Pod      string   // for logs
	Groups   []string // where its group may be, from PodGroups
	Headroom policy.Headroom
	Node     bool // the groups above are to have it too
	// Check judges it, once it is known how many CPUs the siblings may use.
	Check func(cpus int) *policy.Error
}

// Keeper gives groups the headroom that pods claim, and takes it back.
//
// It compares what should be with what is, always for all claims: after an event, after a while, and when the runtime
// tells which pods there are. So nothing that was missed matters for long. What should be:
//
//   - a pod's group has the pod's headroom;
//   - a group above pods that claim it for the node has the largest one of those that have processes;
//   - a headroom that somebody else set stays, where it is larger, and comes back.
//
// Which one somebody else set is told by a mark at the group, an extended attribute: what was written, and what was there
// before. If the file does not say what was written, it is somebody else's. The mark is made before the file is written, so
// that there is no moment at which it could not be told. It lasts as long as the group, not as long as this process.
type Keeper struct {
	groups Groups
	log    *slog.Logger

	mutex   sync.Mutex
	claims  map[string]Claim         // by the id of the pod
	errors  map[string]*policy.Error // of the last pass
	sweep   bool                     // look for marks in the whole tree
	wanted  uint64                   // passes that were asked for
	done    uint64                   // the last of those that has ended
	ended   chan struct{}            // closed when a pass ends, and made anew
	present Present
	begun   time.Time // when the pass that is under way began; zero: none is

	kick   chan struct{}
	marked map[string]bool // groups that have a mark; only the worker uses it
}

// Present tells which files the kernel has.
type Present map[policy.Key]bool

// NewKeeper makes one. Nothing happens before Run.
func NewKeeper(groups Groups, log *slog.Logger) *Keeper {
	return &Keeper{
		groups: groups, log: log, claims: map[string]Claim{}, errors: map[string]*policy.Error{}, sweep: true,
		ended: make(chan struct{}), kick: make(chan struct{}, 1), marked: map[string]bool{},
	}
}

// Run makes passes, one after an event and one each interval, until the context ends.
func (k *Keeper) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		k.pass()
		select {
		case <-ctx.Done():
			return
		case <-k.kick:
		case <-ticker.C:
		}
	}
}

// Set has a pod claim a headroom from the next pass on.
func (k *Keeper) Set(pod string, claim Claim) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.claims[pod] = claim
	delete(k.errors, pod)
}

// Remove takes a pod's claim back.
func (k *Keeper) Remove(pod string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.claims, pod)
	delete(k.errors, pod)
}

// Replace says which claims there are, and has the tree searched for what was left from before.
func (k *Keeper) Replace(claims map[string]Claim) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.claims = maps.Clone(claims)
	k.errors = map[string]*policy.Error{}
	k.sweep = true
}

// Settle waits for a pass that began after the call, and returns what was wrong with a pod's claim.
func (k *Keeper) Settle(ctx context.Context, pod string) *policy.Error {
	k.mutex.Lock()
	k.wanted++
	mine := k.wanted
	k.mutex.Unlock()
	select {
	case k.kick <- struct{}{}:
	default: // One is to come anyway.
	}
	for {
		k.mutex.Lock()
		done, ended, err := k.done >= mine, k.ended, k.errors[pod]
		k.mutex.Unlock()
		if done {
			return err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return policy.Errorf(policy.Timeout, "headroom: the cgroup tree did not answer in time")
		}
	}
}

// Present returns which files the kernel has, or nil where that is not known yet.
func (k *Keeper) Present() Present {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.present
}

// Stuck tells for how long the present pass has been under way.
func (k *Keeper) Stuck() time.Duration {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.begun.IsZero() {
		return 0
	}
	return time.Since(k.begun)
}

func (k *Keeper) pass() {
	k.mutex.Lock()
	mine, claims, sweep := k.wanted, maps.Clone(k.claims), k.sweep
	k.sweep = false
	k.begun = time.Now()
	k.mutex.Unlock()

	present := k.look()
	failed := k.settle(claims, sweep)

	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.present, k.done, k.begun = present, mine, time.Time{}
	for pod, err := range failed {
		if _, still := k.claims[pod]; still && (err != nil || k.errors[pod] != nil) {
			if err != nil && (k.errors[pod] == nil || k.errors[pod].Text != err.Text) {
				k.log.Warn("headroom not in force", "pod", claims[pod].Pod, "reason", err.Reason, "error", err.Text)
			}
			k.errors[pod] = err
		}
	}
	close(k.ended)
	k.ended = make(chan struct{})
}

// look finds a group that has the cpu controller, which is where the files are. The root has none of them.
func (k *Keeper) look() Present {
	present := Present{}
	children, err := k.groups.Children("")
	if err != nil {
		k.log.Error("the cgroup tree cannot be read", "error", err)
		return present
	}
	for _, group := range children {
		if !k.exists(group + "/cpu.weight") {
			continue
		}
		for _, key := range []policy.Key{policy.Hint, policy.Gang, policy.GangScope, policy.HeadroomKey} {
			present[key] = k.exists(group + "/" + key.File())
		}
		break
	}
	return present
}

// settle makes one pass, and returns the error of each claim, nil for those in force.
func (k *Keeper) settle(claims map[string]Claim, sweep bool) map[string]*policy.Error {
	wanted := map[string]uint{} // group -> hundredths of a percent
	result := map[string]*policy.Error{}
	pods := map[string]string{} // group -> id of its pod
	for _, id := range slices.Sorted(maps.Keys(claims)) {
		group, err := k.want(claims[id], wanted)
		result[id] = err
		if err == nil {
			pods[group] = id
		}
	}
	if sweep {
		k.search("", claims)
	}
	for group := range k.marked {
		if _, still := wanted[group]; !still {
			wanted[group] = 0
		}
	}
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		err := k.give(group, wanted[group])
		if err == nil {
			continue
		}
		for id, claim := range claims {
			pod, own := pods[group]
			if result[id] == nil && ((own && pod == id) || (claim.Node && below(k.where(claim), group))) {
				result[id] = err
			}
		}
	}
	return result
}

// want adds what a claim wants of each group.
func (k *Keeper) want(claim Claim, wanted map[string]uint) (string, *policy.Error) {
	group := k.where(claim)
	if group == "" {
		return "", policy.Errorf(policy.Failed, "headroom: there is no cgroup %s", strings.Join(claim.Groups, " and no "))
	}
	cpus, err := CPUs(k.groups, Parent(group))
	if err != nil {
		return "", policy.Errorf(policy.Failed, "headroom: the number of CPUs beside %s: %v", group, err)
	}
	if refused := claim.Check(cpus); refused != nil {
		return "", refused
	}
	percent, err := claim.Headroom.Percent(cpus)
	if err != nil {
		return "", policy.Errorf(policy.Invalid, "headroom: %v", err)
	}
	wanted[group] = max(wanted[group], percent)
	if !claim.Node || !k.populated(group) {
		return group, nil
	}
	for above := Parent(group); above != ""; above = Parent(above) {
		// Those that may use more CPUs leave a smaller part of them idle.
		if cpus, err = CPUs(k.groups, Parent(above)); err != nil {
			return "", policy.Errorf(policy.Failed, "headroom: the number of CPUs beside %s: %v", above, err)
		}
		if percent, err = claim.Headroom.Percent(cpus); err != nil {
			return "", policy.Errorf(policy.Invalid, "headroom: %v", err)
		}
		wanted[above] = max(wanted[above], percent)
	}
	return group, nil
}

// where returns the group of a claim, or "" if there is none (yet, or any more).
func (k *Keeper) where(claim Claim) string {
	for _, group := range claim.Groups {
		if k.exists(group) {
			return group
		}
	}
	return ""
}

// exists takes what cannot be looked at, such as a symbolic link on the way, for something that is not there.
func (k *Keeper) exists(name string) bool {
	ok, err := k.groups.Exists(name)
	if err != nil {
		k.log.Warn("passed over", "name", name, "error", err)
	}
	return ok
}

// populated: what cannot be read is taken for running; so a protection is not lost by mistake.
func (k *Keeper) populated(group string) bool {
	text, err := k.groups.Read(group, "cgroup.events")
	return err != nil || !strings.Contains("\n"+text+"\n", "\npopulated 0\n")
}

func below(group, above string) bool { return strings.HasPrefix(group, above+"/") }

// search finds marks that a former process left. What is below pods belongs to them, and is not looked at.
func (k *Keeper) search(group string, claims map[string]Claim) {
	children, err := k.groups.Children(group)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("cgroups not searched", "group", group, "error", err)
		}
		return
	}
	for _, child := range children {
		if mark, err := k.groups.Mark(child); err == nil && mark != "" {
			k.marked[child] = true
		}
		isPod := func(claim Claim) bool { return slices.Contains(claim.Groups, child) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(claims)), isPod) {
			k.search(child, claims)
		}
	}
}

// give makes a group have at least that headroom, in hundredths of a percent, and no more than that of us.
func (k *Keeper) give(group string, wanted uint) *policy.Error {
	if ok, err := k.groups.Exists(group); err == nil && !ok {
		delete(k.marked, group)
		return nil
	}
	text, err := k.groups.Read(group, headroomFile)
	if errors.Is(err, fs.ErrNotExist) {
		delete(k.marked, group)
		if wanted == 0 {
			return nil
		}
		return policy.Errorf(policy.Missing, "headroom: %s has no %s; the kernel lacks it, or the group the cpu controller",
			group, headroomFile)
	}
	var now uint
	if err == nil {
		now, err = policy.ParsePercent(text)
	}
	if err != nil {
		return policy.Errorf(policy.Failed, "headroom: %v", err)
	}
	noted, err := k.groups.Mark(group)
	if err != nil {
		return policy.Errorf(policy.Failed, "headroom: %v", err)
	}
	old := readMark(noted)
	others := now
	if old.ours(now) {
		others = old.before
	}
	if err := k.change(group, now, wanted, others, old); err != nil {
		return policy.Errorf(policy.Failed, "headroom: %v", err)
	}
	return nil
}

// change makes the file say the larger of what is wanted and what others set, and the mark tell which it is.
func (k *Keeper) change(group string, now, wanted, others uint, old mark) error {
	target := max(wanted, others)
	set := func(next mark) error {
		if next.String() == old.String() {
			return nil
		}
		old = next
		return k.groups.SetMark(group, next.String())
	}
	if target != now {
		// From here until the file is written, it is ours with both values.
		if wanted > others {
			next := mark{before: others, written: []uint{wanted}}
			if old.ours(now) {
				next.written = append(next.written, now)
			}
			if err := set(next); err != nil {
				return err
			}
			k.marked[group] = true
		}
		if err := k.groups.Write(group, headroomFile, policy.FormatPercent(target)); err != nil {
			return err
		}
		k.log.Info("headroom", "group", group, "percent", policy.FormatPercent(target),
			"before", policy.FormatPercent(now))
	}
	if wanted > others {
		k.marked[group] = true
		return set(mark{before: others, written: []uint{wanted}})
	}
	delete(k.marked, group)
	return set(mark{})
}

// A mark tells that a value in the file is ours, and what was there before. Its text is "BEFORE WRITTEN...", as the file
// shows them, and none where nothing is ours.
type mark struct {
	before  uint
	written []uint
}

func (m mark) ours(value uint) bool { return slices.Contains(m.written, value) }

func (m mark) String() string {
	if len(m.written) == 0 {
		return ""
	}
	words := []string{policy.FormatPercent(m.before)}
	for _, value := range m.written {
		words = append(words, policy.FormatPercent(value))
	}
	return strings.Join(words, " ")
}

// readMark takes what it does not understand for no mark: then the value is somebody else's, and stays.
func readMark(text string) mark {
	var values []uint
	for _, word := range strings.Fields(text) {
		value, err := policy.ParsePercent(word)
		if err != nil {
			return mark{}
		}
		values = append(values, value)
	}
	if len(values) < 2 {
		return mark{}
	}
	return mark{values[0], values[1:]}
}
