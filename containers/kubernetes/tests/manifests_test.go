// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"cgroup-steer/nri/internal/config"
	"cgroup-steer/nri/internal/policy"
)

// render is 'kubectl kustomize DIRECTORY', read by the API's own types: a field that they do not have is an error.
func render(t *testing.T, directory string) []runtime.Object {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../"+directory)
	if err != nil {
		t.Fatal(err)
	}
	// For a check by the published schemas, which takes more to install than these tests: kubernetes-validate --strict
	if out := os.Getenv("RENDERED"); out != "" {
		text, err := made.AsYaml()
		if err == nil {
			err = os.WriteFile(filepath.Join(out, directory+".yaml"), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, apps.AddToScheme, batch.AddToScheme, admission.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for _, resource := range made.Resources() {
		object, _, err := decoder.Decode([]byte(resource.MustYaml()), nil, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", resource.GetKind(), resource.GetName(), err)
		}
		objects = append(objects, object)
	}
	return objects
}

// the returns the only object of a kind.
func the[T any](t *testing.T, objects []runtime.Object) *T {
	t.Helper()
	var found *T
	for _, object := range objects {
		if is, ok := any(object).(*T); ok {
			if found != nil {
				t.Fatalf("there is more than one %T", found)
			}
			found = is
		}
	}
	if found == nil {
		t.Fatalf("there is no %T", found)
	}
	return found
}

func policyOf(t *testing.T) *admission.ValidatingAdmissionPolicy {
	t.Helper()
	return the[admission.ValidatingAdmissionPolicy](t, render(t, "base"))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// image is the name of what is built here, in the version of the whole project.
func image(t *testing.T) string {
	t.Helper()
	version := regexp.MustCompile(`(?m)^version = "(.+)"`).FindStringSubmatch(read(t, "tools/cgctl/Cargo.toml"))
	return "localhost/cgroup-steer-nri:" + version[1]
}

func TestBase(t *testing.T) {
	objects := render(t, "base")
	set, files := the[apps.DaemonSet](t, objects), the[core.ConfigMap](t, objects)
	namespace := the[core.Namespace](t, objects).Name
	if set.Namespace != namespace || files.Namespace != namespace {
		t.Errorf("namespaces %s, %s, %s", set.Namespace, files.Namespace, namespace)
	}
	spec := set.Spec.Template.Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) != 0 {
		t.Fatal("there are other containers")
	}
	container := spec.Containers[0]
	if container.Image != image(t) || container.ImagePullPolicy != core.PullIfNotPresent {
		t.Errorf("the image is '%s'; it is made here as '%s'", container.Image, image(t))
	}
	security := container.SecurityContext
	if security.Privileged != nil || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || len(security.Capabilities.Add) != 0 ||
		len(security.Capabilities.Drop) != 1 || security.Capabilities.Drop[0] != "ALL" || spec.HostPID || spec.HostNetwork || spec.HostIPC ||
		*spec.AutomountServiceAccountToken || spec.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("more than is needed: %+v, %+v", security, spec.SecurityContext)
	}
	for _, volume := range spec.Volumes {
		if volume.HostPath != nil && volume.HostPath.Path == "/" {
			t.Error("the whole host")
		}
		if volume.ConfigMap != nil && volume.ConfigMap.Name != files.Name {
			t.Errorf("the configuration is '%s', not '%s'", volume.ConfigMap.Name, files.Name)
		}
	}
	for name, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[name] != value {
			t.Errorf("label %s", name)
		}
	}
	settings, err := config.Parse([]byte(files.Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if request, refused := settings.Rules().Evaluate(policy.Pod{Namespace: "x", Annotations: ours("hint", "pack")}); refused != nil || request.Empty() {
		t.Error(refused)
	}
	if _, refused := settings.Rules().Evaluate(policy.Pod{Namespace: "x", Annotations: ours("headroom", "1%")}); refused == nil || refused.Reason != policy.Forbidden {
		t.Error("a headroom is allowed")
	}
	spec2 := the[admission.ValidatingAdmissionPolicy](t, objects)
	binding := the[admission.ValidatingAdmissionPolicyBinding](t, objects)
	if binding.Spec.PolicyName != spec2.Name || binding.Spec.ValidationActions[0] != admission.Deny {
		t.Errorf("bound is %+v", binding.Spec)
	}
	if first := spec2.Spec.Variables[0]; first.Name != "domain" || first.Expression != "'"+settings.Domain+"'" {
		t.Errorf("the policy's domain is %s, the plugin's %s", first.Expression, settings.Domain)
	}
}

// The flags of the manifest are those of the program.
func TestArguments(t *testing.T) {
	main := read(t, "containers/nri/main.go")
	for _, argument := range the[apps.DaemonSet](t, render(t, "base")).Spec.Template.Spec.Containers[0].Args {
		name, _, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !strings.Contains(main, `"`+name+`"`) {
			t.Errorf("there is no flag --%s", name)
		}
	}
}

// What the example asks for is right, allowed by its configuration, and different from nothing.
func TestExample(t *testing.T) {
	objects := render(t, "example")
	e := compile(t, the[admission.ValidatingAdmissionPolicy](t, objects).Spec)
	settings, err := config.Parse([]byte(the[core.ConfigMap](t, objects).Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	judge := func(namespace string, object runtime.Object, template core.PodTemplateSpec) policy.Request {
		t.Helper()
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.refusals(t, fields, nil); len(got) > 0 {
			t.Errorf("refused: %v", got)
		}
		request, refused := settings.Rules().Evaluate(policy.Pod{Namespace: namespace, Labels: template.Labels, Annotations: template.Annotations})
		if refused == nil {
			refused = request.PodMaximum(4)
		}
		if refused != nil {
			t.Error(refused)
		}
		return request
	}
	frontend := the[apps.Deployment](t, objects)
	request := judge(frontend.Namespace, frontend, frontend.Spec.Template)
	headroom, node := request.Headroom()
	if headroom.Zero() || !node || request.Container("web")[policy.Hint] != "tail_latency" || request.Container("log")[policy.Hint] != "background" {
		t.Errorf("%v, %v, %v, %v", headroom, node, request.Container("web"), request.Container("log"))
	}
	report := the[batch.Job](t, objects)
	if request = judge(report.Namespace, report, report.Spec.Template); request.Container("report")[policy.Hint] != "background" {
		t.Error(request)
	}
	simulation := the[batch.CronJob](t, objects)
	if request = judge(simulation.Namespace, simulation, simulation.Spec.JobTemplate.Spec.Template); request.Container("simulation")[policy.Gang] != "1" {
		t.Error(request)
	}
}
