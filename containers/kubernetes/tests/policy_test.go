// SPDX-License-Identifier: Apache-2.0

// Package kubernetes tests the manifests beside it, without a cluster: the admission policy is evaluated with cel-go as
// the API server does it, and the manifests are read by the API's own types.
package kubernetes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	admission "k8s.io/api/admissionregistration/v1"

	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/policy"
)

// costMost is what the API server allows an expression (PerCallLimit) and the whole policy may take ten times as much.
const costMost = 1000000

// evaluator is a policy, compiled. Variables of the policy become those of the environment, with the types that they
// have, so that uses of them are checked.
type evaluator struct {
	names     []string
	variables []cel.Program
	checks    []check
}

type check struct{ expression, message cel.Program }

var reference = regexp.MustCompile(`\bvariables\.(\w+)`)

func compile(t *testing.T, spec admission.ValidatingAdmissionPolicySpec) evaluator {
	t.Helper()
	// What the API server has in its environment since Kubernetes 1.30, where this kind of policy is no longer beta.
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(ext.StringsVersion(0)),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	program := func(what, expression string, wanted *cel.Type) (cel.Program, *cel.Type) {
		ast, issues := env.Compile(reference.ReplaceAllString(expression, "v_$1"))
		if issues.Err() != nil {
			t.Fatalf("%s: %v", what, issues.Err())
		}
		if wanted != nil && !ast.OutputType().IsExactType(wanted) {
			t.Fatalf("%s is of type %s, not %s", what, ast.OutputType(), wanted)
		}
		result, err := env.Program(ast, cel.CostLimit(costMost), cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return result, ast.OutputType()
	}
	var result evaluator
	for _, variable := range spec.Variables {
		compiled, kind := program(variable.Name, variable.Expression, nil)
		result.names = append(result.names, "v_"+variable.Name)
		result.variables = append(result.variables, compiled)
		if env, err = env.Extend(cel.Variable("v_"+variable.Name, kind)); err != nil {
			t.Fatal(err)
		}
	}
	for i, validation := range spec.Validations {
		expression, _ := program(fmt.Sprintf("validation %d", i), validation.Expression, cel.BoolType)
		message, _ := program(fmt.Sprintf("message %d", i), validation.MessageExpression, cel.StringType)
		result.checks = append(result.checks, check{expression, message})
	}
	return result
}

// refusals returns the messages of what is wrong with an object.
func (e evaluator) refusals(t *testing.T, object, old any) (messages []string) {
	t.Helper()
	values := map[string]any{"object": object, "oldObject": old, "request": map[string]any{}}
	value := func(program cel.Program) ref.Val {
		got, _, err := program.Eval(values)
		if err != nil {
			t.Fatalf("%v: %v", object, err)
		}
		return got
	}
	for i, variable := range e.variables {
		values[e.names[i]] = value(variable)
	}
	for _, check := range e.checks {
		if value(check.expression).Value() == true {
			continue
		}
		message := value(check.message).Value().(string)
		if strings.TrimSpace(message) == "" || strings.Contains(message, "\n") {
			t.Errorf("the API server does not take the message %q", message)
		}
		messages = append(messages, message)
	}
	return messages
}

func annotated(annotations map[string]string) map[string]any {
	metadata := map[string]any{"name": "x"}
	if annotations != nil {
		values := map[string]any{}
		for name, value := range annotations {
			values[name] = value
		}
		metadata["annotations"] = values
	}
	return map[string]any{"metadata": metadata, "spec": map[string]any{"containers": []any{map[string]any{"name": "web"}, map[string]any{"name": "log"}},
		"initContainers": []any{map[string]any{"name": "init"}}}}
}

func pod(annotations map[string]string) map[string]any {
	result := annotated(annotations)
	result["kind"], result["apiVersion"] = "Pod", "v1"
	return result
}

func ours(words ...string) map[string]string {
	result := map[string]string{}
	for i := 0; i < len(words); i += 2 {
		key, suffix, found := strings.Cut(words[i], "/")
		if found {
			suffix = "/" + suffix
		}
		result[key+"."+config.DefaultDomain+suffix] = words[i+1]
	}
	return result
}

func TestGoodAndBad(t *testing.T) {
	e := compile(t, policyOf(t).Spec)
	for _, each := range []struct {
		annotations map[string]string
		wanted      string // part of the refusal
	}{
		{nil, ""},
		{map[string]string{"hint.other.example": "x", "steer.internal": "x", "x.cgroup-steer.internal.example/pod": "y"}, ""},
		{ours("hint", "tail_latency\tpack", "hint/pod", "inherit", "hint/container.log", "background", "gang", "Yes", "gang.scope", " llc ",
			"headroom", "12.5 %", "headroom.scope", "node", "headroom/container.init", "500m"), ""},
		{ours("headroom", "2"), ""}, {ours("headroom", "1.5"), ""}, {ours("headroom", "100.00%"), ""},
		{ours("hint", "tail_latncy"), "annotation hint.cgroup-steer.internal: takes inherit, or none, or a profile (tail_latency "},
		{ours("hint", ""), "hint.cgroup-steer.internal"}, {ours("hint", "+pack"), "takes"}, {ours("hint", "pack pack"), "none twice"},
		{ours("hint", "wake_affine wake_hold"), "at most one of each category"}, {ours("hint", "pack background"), "takes"},
		{ours("hint", "none pack"), "takes"}, {ours("hint", strings.Repeat(" ", 300)+"pack"), "takes"},
		{ours("hnit", "pack"), "annotation hnit.cgroup-steer.internal: unknown key; known, each followed by .cgroup-steer.internal: hint gang "},
		{map[string]string{config.DefaultDomain + "/x": ""}, "unknown key"},
		{ours("hint/container.lgo", "pack"), "one of: container.web container.log container.init"},
		{ours("hint/web", "pack"), "what follows the slash is pod"}, {ours("headroom.scope/container.web", "pod"), "but for headroom.scope"},
		{ours("gang", "2"), "takes 0 or 1"}, {ours("gang.scope", "socket"), "gang.scope takes core, llc, node or system"},
		{ours("headroom.scope", "machine"), "headroom.scope pod or node"},
		{ours("headroom", "100.01%"), "at most 100%"}, {ours("headroom", "1.234%"), "headroom"}, {ours("headroom", "2k"), "headroom"},
		{ours("headroom", "65536001m"), "headroom"},
	} {
		got := e.refusals(t, pod(each.annotations), nil)
		if (len(got) == 0) != (each.wanted == "") || !strings.Contains(strings.Join(got, "\n"), each.wanted) {
			t.Errorf("%v: %v", each.annotations, got)
		}
	}
}

// Wherever the pod is in an object, its annotations are found; and those that were there already are left alone.
func TestKinds(t *testing.T) {
	spec := policyOf(t).Spec
	e := compile(t, spec)
	shapes := map[string]func(map[string]any) map[string]any{
		"pods":         func(pod map[string]any) map[string]any { return maps.Clone(pod) },
		"podtemplates": func(pod map[string]any) map[string]any { return map[string]any{"template": pod} },
		"cronjobs": func(pod map[string]any) map[string]any {
			return map[string]any{"spec": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": pod}}}}
		},
	}
	kinds := map[string]string{"pods": "Pod", "podtemplates": "PodTemplate", "replicationcontrollers": "ReplicationController", "deployments": "Deployment",
		"daemonsets": "DaemonSet", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "jobs": "Job", "cronjobs": "CronJob"}
	matched := 0
	for _, rule := range spec.MatchConstraints.ResourceRules {
		for _, resource := range rule.Resources {
			matched++
			shape := shapes[resource]
			if shape == nil {
				shape = func(pod map[string]any) map[string]any {
					return map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"template": pod}}
				}
			}
			object := func(annotations map[string]string) map[string]any {
				result := shape(annotated(annotations))
				result["kind"] = kinds[resource]
				return result
			}
			good, bad := object(ours("hint", "pack")), object(ours("hint", "pakc"))
			more := object(ours("hint", "pakc", "gang", "x"))
			for _, each := range []struct {
				what        string
				object, old any
				refused     int
			}{
				{"good", good, nil, 0}, {"none", object(nil), nil, 0}, {"bad", bad, nil, 1}, {"became bad", bad, good, 1}, {"bad, was none", bad, object(nil), 1},
				{"was bad", bad, bad, 0}, {"another one is bad", more, bad, 1}, {"is removed", good, bad, 0},
			} {
				if got := e.refusals(t, each.object, each.old); len(got) != each.refused {
					t.Errorf("%s, %s: %v", resource, each.what, got)
				}
			}
		}
	}
	if matched != len(kinds) {
		t.Errorf("%d resources are matched, of %d", matched, len(kinds))
	}
}

// The policy and the plugin agree on every value.
func TestSameAsThePlugin(t *testing.T) {
	e := compile(t, policyOf(t).Spec)
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	words := slices.Concat(policy.Words, policy.Profiles, []string{"inherit", "none", "+pack", "-pack", "pakc", "", "Pack", "ſcan_full", "1"})
	blanks := []string{" ", " ", " ", "\t", "\n", "\v", "\f", "\r", "  ", "\u00a0", "\u0085", "\u2003", "\x00", "."}
	numbers := []string{"0", "1", "00", "9", "99", "100", "101", "12.5", "12.50", "12.345", "12.3456", "100.0", "100.01", "65536", "65536.001", "65537", "65536000",
		"65536001", "000000000001", "0000000000001", "000000000100", "0000000000100", "1.", ".5", "-1", "+1", "1e1", "٣", "", "0x1", "1_0"}
	units := []string{"", "%", " %", "\t%", "m", " m", "k", "%%", "M"}
	texts := map[policy.Key]func() string{
		policy.Hint: func() string {
			var text strings.Builder
			for range random.IntN(5) {
				text.WriteString(pick(words) + pick(blanks))
			}
			return text.String() + pick(words)
		},
		policy.Gang: func() string {
			return pick([]string{"0", "1", "yes", "NO", "True", "false", "on", "OFF", "yeſ", "2", "", "\u212a"})
		},
		policy.GangScope:     func() string { return pick(append([]string{"LLC", "x", ""}, policy.Scopes...)) },
		policy.HeadroomScope: func() string { return pick([]string{"pod", "node", "Pod", "", "pods"}) },
		policy.HeadroomKey:   func() string { return pick(numbers) + pick(units) },
	}
	count := map[string]int{}
	for range 20000 {
		key := policy.Keys[random.IntN(len(policy.Keys))]
		text := texts[key]()
		if random.IntN(3) == 0 {
			text = pick(blanks) + text + pick(blanks)
		}
		if random.IntN(100) == 0 {
			text += strings.Repeat(pick(blanks), random.IntN(300))
		}
		annotations := ours(string(key)+pick([]string{"", "", "/pod", "/container.web", "/container.init"}), text)
		_, refused := policy.ParseAnnotations(config.DefaultDomain, annotations)
		got := e.refusals(t, pod(annotations), nil)
		if (refused != nil) != (len(got) > 0) {
			t.Fatalf("%q: the plugin says %v, the policy %v", annotations, refused, got)
		}
		count[fmt.Sprint(key, refused == nil)]++
	}
	for _, key := range policy.Keys {
		for _, good := range []bool{true, false} {
			if count[fmt.Sprint(key, good)] < 100 {
				t.Errorf("too few cases of %s, %v: %v", key, good, count)
			}
		}
	}
}
