// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/containerd/nri/pkg/api"
	nri "github.com/containerd/nri/pkg/plugin"
)

const domain = "steer.example"

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// initializer returns what is between the braces of a table in C.
func initializer(t *testing.T, text, table string) string {
	t.Helper()
	_, text, found := strings.Cut(text, table)
	if !found {
		t.Fatalf("no '%s' in the kernel's source", table)
	}
	text, _, _ = strings.Cut(text, "\n}")
	return text
}

func matches(text, pattern string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// The tables are the kernel's.
func TestTablesOfTheKernel(t *testing.T) {
	words := source(t, "kernel/cgroup/steer_words.c")
	header := source(t, "include/linux/sched/steer.h")
	same := func(what string, ours, kernels []string) {
		if !slices.Equal(ours, kernels) {
			t.Errorf("%s: ours are %v, the kernel's %v", what, ours, kernels)
		}
	}
	same("words", Words, matches(initializer(t, words, "steer_word_names[] = {"), `"(\w+)"`))
	same("profiles", Profiles, matches(initializer(t, words, "steer_profiles[] = {"), `\{ "(\w+)"`))
	same("scopes", Scopes, matches(initializer(t, source(t, "kernel/cgroup/steer_gang.c"), "steer_scopes[STEER_NR_SCOPES] = {"), `"(\w+)"`))

	bits := map[string]uint32{}
	for _, match := range regexp.MustCompile(`(?m)^#define (STEER_\w+)\s+(0x[0-9a-f]+)$`).FindAllStringSubmatch(header, -1) {
		value, err := strconv.ParseUint(match[2], 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		bits[match[1]] = uint32(value)
	}
	for i, word := range Words {
		if bits["STEER_"+strings.ToUpper(word)] != 1<<i {
			t.Errorf("%s is not bit %d", word, i)
		}
	}
	// "#define STEER_FORK (STEER_FORK_AFFINE | STEER_FORK_SPREAD)"; a category of one word may be that word itself.
	defined := map[string]uint32{}
	for _, match := range regexp.MustCompile(`(?m)^#define (STEER_\w+)\s+(\(?STEER_[A-Z_| ]+\)?)$`).FindAllStringSubmatch(header, -1) {
		for _, name := range matches(match[2], `(STEER_\w+)`) {
			defined[match[1]] |= bits[name]
		}
	}
	var kernels, ours []string
	for _, name := range matches(initializer(t, words, "steer_categories[] = {"), `(STEER_\w+)`) {
		mask := defined[name]
		if mask == 0 {
			mask = bits[name]
		}
		kernels = append(kernels, fmt.Sprintf("%s %#x", strings.ToLower(strings.TrimPrefix(name, "STEER_")), mask))
	}
	for _, category := range Categories {
		ours = append(ours, fmt.Sprintf("%s %#x", category.Name, category.Mask))
	}
	same("categories", ours, kernels)
}

func TestHints(t *testing.T) {
	for line, wanted := range map[string]string{
		"inherit": "inherit", " none\n": "none", "pack\t wake_hold": "pack wake_hold", "tail_latency scan_none": "tail_latency scan_none",
	} {
		if got, err := Hint.Check(line); err != nil || got != wanted {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for line, part := range map[string]string{
		"":                       "no word; use 'inherit' or 'none'",
		" \n":                    "no word",
		"none pack":              "'none' stands alone",
		"pack inherit":           "'inherit' stands alone",
		"pack pack":              "'pack' is there twice",
		"pack efficient":         "'efficient' has to be the first word",
		"background interactive": "'interactive' has to be the first word",
		"wake_affine wake_hold":  "'wake_affine' and 'wake_hold' are both of the category 'wake'",
		"+pack":                  "'+pack' is an edit",
		"pack -energy":           "'-energy' is an edit",
		"Wake-Affine":            "did you mean 'wake_affine'?",
		"efficeint":              "did you mean 'efficient'?",
		"pack interactve":        "known: fork_affine fork_spread wake_affine wake_hold wake_wide scan_full scan_none slice_short slice_long preempt_none pack energy",
		"turbo":                  "unknown word 'turbo'; known",
		"pa\x00ck":               "NUL",
		strings.Repeat("x", 300): "longer than 256 characters",
		"pack\u00a0wake_hold":    "unknown word",
		"\x1b[31m":               `unknown word '\x1b[31m'`,
	} {
		if got, err := Hint.Check(line); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}

func TestOtherValues(t *testing.T) {
	for _, each := range []struct {
		key           Key
		value, wanted string
	}{
		{Gang, " 1\n", "1"}, {Gang, "Yes", "1"}, {Gang, "off", "0"}, {Gang, "2", "'2' is neither 0 nor 1"}, {Gang, "", "'' is neither"},
		{GangScope, "llc", "llc"}, {GangScope, "\vllc\f", "llc"}, {GangScope, "llc\u00a0", "unknown scope"}, {Gang, "\u20031", "neither"},
		{GangScope, "lcc", "did you mean 'llc'?"}, {HeadroomScope, "node", "node"},
		{HeadroomScope, "nodes", "did you mean 'node'?"}, {HeadroomKey, " 20% ", "20%"},
	} {
		got, err := each.key.Check(each.value)
		if err != nil {
			got = err.Error()
		}
		if got != each.wanted && (err == nil || !strings.Contains(got, each.wanted)) {
			t.Errorf("%s %q: %s", each.key, each.value, got)
		}
	}
}

func TestHeadrooms(t *testing.T) {
	for text, wanted := range map[string]string{
		"0%": "0.00%", "20%": "20.00%", "12.5 %": "12.50%", "0.07%": "0.07%", "100.00%": "100.00%", "2": "2 CPUs of 4 are 50.00%",
		"500m": "500m CPUs of 4 are 12.50%", "1.5": "1500m CPUs of 4 are 37.50%", "1m": "1m CPUs of 4 are 0.03%", "4": "4 CPUs of 4 are 100.00%",
		"0": "0.00%", "4.001": "more than the 4 CPUs", "20": "more than the 4 CPUs",
	} {
		headroom, err := ParseHeadroom(text)
		got := headroom.String()
		if err == nil && headroom.milliCPUs != 0 {
			var percent uint
			percent, err = headroom.Percent(4)
			got = fmt.Sprintf("%s of 4 are %s%%", headroom, FormatPercent(percent))
		}
		if err != nil {
			got = err.Error()
		}
		if got != wanted && (err == nil || !strings.Contains(got, wanted)) {
			t.Errorf("%q: %s", text, got)
		}
	}
	for _, text := range []string{"", "%", "-1", "-1%", "+1", "1e2", "1.234%", ".5", "5.", "max", "1 0", "2k", "1.5m", "100.01%", "0x1", "99999999999999999999",
		"70000", "١", "1_0", "20%%", "1\x00", "2.0001", strings.Repeat("1", 300)} {
		if headroom, err := ParseHeadroom(text); err == nil {
			t.Errorf("%q: %s", text, headroom)
		}
	}
	if _, err := (Headroom{milliCPUs: 1}).Percent(0); err == nil {
		t.Error("a part of no CPUs")
	}
}

func TestSuggestions(t *testing.T) {
	for word, wanted := range map[string]string{"pakc": "pack", "PACK": "pack", "turbo": "", "": "", "tail-latency": "tail_latency"} {
		if got := Suggestion(word, []string{"pack", "tail_latency"}); (wanted == "") != (got == "") || !strings.Contains(got, wanted) {
			t.Errorf("%s: %s", word, got)
		}
	}
}

// The SDK's function and ours find the same annotation.
func TestConventionsOfTheSDK(t *testing.T) {
	values := map[string]string{"": "fork_affine", "/pod": "wake_hold", "/container.web": "pack", "/container.db": "energy"}
	names := slices.Sorted(maps.Keys(values))
	for set := range 1 << len(names) {
		annotations := map[string]string{"other/pod": "x", "hint.other": "x"}
		for i, name := range names {
			if set&(1<<i) != 0 {
				annotations["hint."+domain+name] = values[name]
			}
		}
		parsed, err := ParseAnnotations(domain, annotations)
		if err != nil {
			t.Fatal(err)
		}
		for _, container := range []string{"web", "db", "else"} {
			wanted, has := nri.GetEffectiveAnnotation(&api.PodSandbox{Annotations: annotations}, "hint."+domain, container)
			if got, ok := parsed.Container(container, nil)[Hint]; got != wanted || ok != has {
				t.Errorf("%v, %s: '%s', the SDK says '%s'", annotations, container, got, wanted)
			}
		}
	}
}

func TestEachWrongAnnotationIsNamed(t *testing.T) {
	_, err := ParseAnnotations(domain, map[string]string{"hint." + domain: "x", "gang." + domain + "/pod": "y", "gang.scope." + domain: "llc",
		domain + "/z": "", "head." + domain: "", "hint." + domain + "/container.": "pack", "hint." + domain + "/pod/x": "pack"})
	if err == nil || err.Reason != Invalid {
		t.Fatal(err)
	}
	for _, name := range []string{"hint.steer.example:", "gang.steer.example/pod:", "steer.example/z:", "head.steer.example:",
		"hint.steer.example/container.:", "hint.steer.example/pod/x:"} {
		if !strings.Contains(err.Text, "annotation "+name) {
			t.Errorf("%s is not named: %s", name, err.Text)
		}
	}
	if strings.Contains(err.Text, "annotation gang.scope") {
		t.Error(err.Text)
	}
}

func TestRules(t *testing.T) {
	rules := Rules{Domain: domain, Allow: []Allow{
		{Keys: []Key{Hint}},
		{Keys: []Key{HeadroomKey}, Selector: Selector{Namespaces: []string{"team-*", "shop"}, Labels: map[string]string{"tier": "critical"}}, MaxHeadroom: "10%"},
		{Keys: []Key{HeadroomKey}, Selector: Selector{Namespaces: []string{"shop"}, Labels: map[string]string{"any": "*"}}, Scopes: []string{"pod", "node"}},
	}}
	critical, anything := map[string]string{"tier": "critical"}, map[string]string{"any": "thing"}
	for _, each := range []struct {
		namespace   string
		labels      map[string]string
		annotations string // key=value, separated by blanks
		wanted      string // part of the error, or nothing
	}{
		{"else", nil, "hint=pack", ""},
		{"else", nil, "gang=1", "no rule of the plugin's configuration allows 'gang' to this pod of namespace 'else'"},
		{"else", nil, "gang/container.x=1", "allows 'gang'"},
		{"else", critical, "headroom=5%", "allows 'headroom'"},
		{"shop", nil, "headroom=5%", "allows 'headroom'"},
		{"shop", map[string]string{"tier": "other"}, "headroom=5%", "allows 'headroom'"},
		{"team-a", critical, "headroom=10%", ""},
		{"team-a", critical, "headroom=10.01%", "allows at most 10.00% to this pod"},
		{"team-a", critical, "headroom=5% headroom.scope=pod", ""},
		{"team-a", critical, "headroom=5% headroom.scope=node", "allows the scope 'node'"},
		{"shop", critical, "headroom=5% headroom.scope=node", "allows the scope 'node'"},
		{"shop", anything, "headroom=50% headroom.scope=node", ""},
		{"shop", anything, "headroom=2", ""},
		{"shop", anything, "headroom=2001m", "allows at most 50.00%"},
	} {
		annotations := map[string]string{}
		for word := range strings.FieldsSeq(each.annotations) {
			name, value, _ := strings.Cut(word, "=")
			key, suffix, _ := strings.Cut(name+"/", "/")
			annotations[strings.TrimSuffix(key+"."+domain+"/"+suffix, "/")] = value
		}
		request, err := rules.Evaluate(Pod{each.namespace, each.labels, annotations})
		if err == nil {
			err = request.PodMaximum(4)
		}
		if (err == nil) != (each.wanted == "") || (err != nil && (err.Reason != Forbidden || !strings.Contains(err.Text, each.wanted))) {
			t.Errorf("%v: %v", each, err)
		}
	}
	// What the cluster gives has no maximum.
	rules.Defaults = []Default{{Values: Values{HeadroomKey: "90%"}}}
	request, err := rules.Evaluate(Pod{Namespace: "else"})
	if headroom, node := request.Headroom(); err != nil || request.PodMaximum(4) != nil || headroom.String() != "90.00%" || node {
		t.Error(headroom, node, err)
	}
}

// Whatever a tenant writes, it is refused or means something that the kernel takes; nothing else ever happens.
func FuzzAnnotations(f *testing.F) {
	for _, seed := range [][3]string{{"hint", "tail_latency pack", "/pod"}, {"headroom", "12.5%", ""}, {"headroom", "500m", "/container.x"},
		{"gang.scope", "llc", "/container.web"}, {"", "x", "/x"}, {"hint", "+pack -x", "/container."}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	rules := Rules{Domain: domain, Allow: []Allow{{Keys: Keys, MaxHeadroom: "100%", Scopes: HeadroomScopes}}}
	f.Fuzz(func(t *testing.T, key, value, suffix string) {
		annotations := map[string]string{key + "." + domain + suffix: value}
		request, err := rules.Evaluate(Pod{Namespace: "x", Annotations: annotations})
		if err != nil {
			if err.Reason != Invalid || !strings.Contains(err.Text, "annotation ") || strings.ContainsFunc(err.Text, unicode.IsControl) {
				t.Errorf("%q: %+v", annotations, err)
			}
			return
		}
		for file, text := range request.Container("web") {
			if again, err := file.Check(text); err != nil || again != text {
				t.Errorf("%q: %s is %q, then %q, %v", annotations, file, text, again, err)
			}
			if file == Hint && !kernelTakes(text) {
				t.Errorf("the kernel does not take %q", text)
			}
		}
		headroom, _ := request.Headroom()
		if percent, err := headroom.Percent(4); err == nil && percent > HeadroomAll {
			t.Errorf("%q: %d", annotations, percent)
		}
	})
}

// kernelTakes is steer_request_parse() of the kernel's source, without edits: written once more, from that.
func kernelTakes(line string) bool {
	var bits uint32
	last, count := false, 0
	for token := range strings.SplitSeq(line, " ") {
		if token == "" {
			continue
		}
		if last {
			return false
		}
		count++
		if count == 1 && (token == "inherit" || token == "none") {
			last = true
			continue
		}
		if count == 1 && slices.Contains(Profiles, token) {
			continue
		}
		word := slices.Index(Words, token)
		if word < 0 || bits&(1<<word) != 0 {
			return false
		}
		bits |= 1 << word
	}
	for _, category := range Categories {
		if both := bits & category.Mask; both&(both-1) != 0 {
			return false
		}
	}
	return count > 0
}
