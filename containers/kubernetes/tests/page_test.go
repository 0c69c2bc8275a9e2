// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/policy"
)

// command is one of a page, with the lines that it prints there.
type command struct {
	text    string
	printed []string
}

// commands returns those of the page's section on Kubernetes. "# " begins one, "> " goes on with it.
func commands(t *testing.T) (result []command) {
	t.Helper()
	_, section, found := strings.Cut(read(t, "containers/README.md"), "\n## Kubernetes\n")
	if !found {
		t.Fatal("the page has no section on Kubernetes")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for i, block := range strings.Split(section, "\n```") {
		if i%2 == 0 {
			continue
		}
		for _, line := range strings.Split(strings.TrimPrefix(block, "\n"), "\n") {
			if text, begins := strings.CutPrefix(line, "# "); begins {
				result = append(result, command{text: text})
			} else if last := len(result) - 1; last < 0 {
				t.Fatalf("%s: belongs to no command", line)
			} else if text, goesOn := strings.CutPrefix(line, "> "); goesOn {
				result[last].text += "\n" + text
			} else {
				result[last].printed = append(result[last].printed, line)
			}
		}
	}
	return result
}

// What the page tells to type is right, as far as that can be seen without a cluster: files and directories are there,
// objects are known by the names that are used, the pod is admitted, and the wrong one is refused as printed.
func TestPage(t *testing.T) {
	e := compile(t, policyOf(t).Spec)
	base := render(t, "base")
	dir := t.TempDir()
	shell := func(text string) []byte {
		t.Helper()
		run := exec.Command("sh", "-c", text)
		run.Dir = dir
		out, err := run.Output()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return out
	}
	pod := func(text []byte) (core.Pod, []string) {
		t.Helper()
		var result core.Pod
		if err := yaml.UnmarshalStrict(text, &result); err != nil {
			t.Fatal(err)
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&result)
		if err != nil {
			t.Fatal(err)
		}
		return result, e.refusals(t, fields, nil)
	}
	checks := []struct {
		pattern string
		check   func(command, []string)
	}{
		{`make (\w+)`, func(_ command, found []string) {
			if !strings.Contains(read(t, "Makefile"), "\n"+found[1]+":") {
				t.Errorf("make has no target %s", found[1])
			}
		}},
		{`podman build --tag (\S+) --file (\S+) build/nri`, func(_ command, found []string) {
			if found[1] != image(t) {
				t.Errorf("%s is not %s", found[1], image(t))
			}
			for _, line := range []string{"FROM scratch", "COPY cgroup-steer-nri /cgroup-steer-nri", `ENTRYPOINT ["/cgroup-steer-nri"]`} {
				if !slices.Contains(strings.Split(read(t, found[2]), "\n"), line) {
					t.Errorf("%s has no line '%s'", found[2], line)
				}
			}
		}},
		{`podman save (\S+) \| ctr --namespace k8s.io images import -`, func(_ command, found []string) {
			if found[1] != image(t) {
				t.Errorf("%s is not %s", found[1], image(t))
			}
		}},
		{`kubectl (?:apply --kustomize|kustomize) containers/kubernetes/(\w+)`, func(_ command, found []string) {
			if len(render(t, found[1])) == 0 {
				t.Error(found)
			}
		}},
		{`kubectl --namespace (\S+) rollout status daemonset/(\S+)`, func(_ command, found []string) {
			if set := the[apps.DaemonSet](t, base); set.Namespace != found[1] || set.Name != found[2] {
				t.Errorf("it is %s/%s, not %s", set.Namespace, set.Name, found[1:])
			}
		}},
		{`(?s)cat >(web.yaml) <<END\n.*\nEND`, func(is command, found []string) {
			shell(is.text)
			text, err := os.ReadFile(filepath.Join(dir, found[1]))
			if err != nil {
				t.Fatal(err)
			}
			made, refused := pod(text)
			request, err2 := config.Default().Rules().Evaluate(policy.Pod{Namespace: "default", Annotations: made.Annotations})
			if len(refused) > 0 || err2 != nil || request.Container(made.Spec.Containers[0].Name)[policy.Hint] != "tail_latency" {
				t.Error(refused, err2, request)
			}
		}},
		// What comes out in the group is the kernel's, and seen on the page's part on containerd.
		{`kubectl (?:apply --filename web.yaml|wait --for condition=Ready pod/web|exec web -- cat /sys/fs/cgroup/cpu.hint.effective)`,
			func(command, []string) {}},
		{`(sed .*) \| kubectl apply --filename -`, func(is command, found []string) {
			made, refused := pod(shell(found[1]))
			if made.Name != "wrong" || len(refused) != 1 || len(is.printed) != 1 {
				t.Fatal(made.Name, refused, is.printed)
			}
			part := strings.TrimSuffix(strings.TrimPrefix(is.printed[0], "… denied request: "), "…")
			if !strings.HasPrefix(refused[0], part) {
				t.Errorf("'%s' is not how '%s' begins", part, refused[0])
			}
		}},
		{`kubectl get nodes --label-columns feature.node.kubernetes.io/(cgroup-steer)\.(headroom)`, func(_ command, found []string) {
			label := strings.TrimPrefix(found[0], "kubectl get nodes --label-columns ")
			if selector := the[apps.Deployment](t, render(t, "example")).Spec.Template.Spec.NodeSelector; selector[label] != "true" {
				t.Errorf("the example has no %s: %v", label, selector)
			}
		}},
	}
	seen := make([]int, len(checks))
	for _, each := range commands(t) {
		known := false
		for i, check := range checks {
			if found := regexp.MustCompile("^(?:" + check.pattern + ")$").FindStringSubmatch(each.text); found != nil {
				known = true
				seen[i]++
				check.check(each, found)
			}
		}
		if !known {
			t.Errorf("nobody checks: %s", each.text)
		}
	}
	for i, count := range seen {
		if count == 0 {
			t.Errorf("the page has no %s", checks[i].pattern)
		}
	}
}
