package manifests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	root     = "../.."
	overlays = root + "/k8s/overlays"
	// external is what a user's certificate manager brings: decoded strictly all the same.
	external = "cert-manager.io"
)

func TestMain(m *testing.M) {
	if err := certmanager.AddToScheme(legacyscheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// An object as the manifests have it, and as the API server would after defaults.
type object struct {
	from string // overlay, kind, name
	kind string
	name string
	obj  runtime.Object
}

// places lists the folders that kustomize builds.
func places(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(overlays + "/*")
	if err != nil || len(found) < 3 {
		t.Fatalf("overlays: %v, %v", found, err)
	}
	return append(found, root+"/k8s/base")
}

// build makes the objects of a place, as `kubectl apply -k` would, decoded as strictly as the API server can be asked
// to.
func build(t *testing.T, place string) []object {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), place)
	if err != nil {
		t.Fatalf("%s: %v", place, err)
	}
	strict := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []object
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o := object{from: fmt.Sprintf("%s: %s %s", filepath.Base(place), r.GetKind(), r.GetName()), kind: r.GetKind(),
			name: r.GetName()}
		if o.obj, _, err = strict.Decode(text, nil, nil); err != nil {
			t.Errorf("%s: %v", o.from, err)
			continue
		}
		legacyscheme.Scheme.Default(o.obj)
		out = append(out, o)
	}
	if len(out) == 0 {
		t.Fatalf("%s makes nothing", place)
	}
	return out
}

// selectType returns the objects of one type.
func selectType[T runtime.Object](objects []object) []T {
	var out []T
	for _, o := range objects {
		if v, ok := o.obj.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

// TestStrictDecodingBites holds that a misspelt key does not pass, here and in the files of the authority.
func TestStrictDecodingBites(t *testing.T) {
	strict := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, text := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {portz: []}\n",
		"apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: x}\nspec: {secretName: x, issuerRef: {name: " +
			"x}, urls: []}\n",
	} {
		if _, _, err := strict.Decode([]byte(text), nil, nil); err == nil {
			t.Errorf("taken: %s", text)
		}
	}
}

// TestEveryManifestIsUsed holds that no file of k8s/ is left out of what is checked here.
func TestEveryManifestIsUsed(t *testing.T) {
	for _, place := range places(t) {
		kustomization, err := os.ReadFile(filepath.Join(place, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		there, err := filepath.Glob(place + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.DeleteFunc(there,
			func(f string) bool { return filepath.Base(f) == "kustomization.yaml" }) {
			if !bytes.Contains(kustomization, []byte(filepath.Base(file))) {
				t.Errorf("%s is used by no kustomization", file)
			}
		}
	}
}
