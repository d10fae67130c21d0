package manifests

import (
	"net/url"
	"strings"
	"testing"
	"time"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	podsecurity "k8s.io/pod-security-admission/api"
	podsecuritypolicy "k8s.io/pod-security-admission/policy"
)

// validate asks the API server's own rules about an object. What it has no rules for is an error: nothing passes
// unseen.
func validate(t *testing.T, o object) field.ErrorList {
	t.Helper()
	if strings.HasPrefix(o.obj.GetObjectKind().GroupVersionKind().Group, external) {
		return nil // TestCertificates looks at these
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(o.obj, runtime.InternalGroupVersioner)
	if err != nil {
		t.Fatalf("%s: %v", o.from, err)
	}
	switch v := internal.(type) {
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(v, podapi.GetValidationOptionsFromPodTemplate(&v.Spec.Template, nil))
	case *core.Service:
		if v.Spec.ClusterIP != "" && v.Spec.ClusterIPs == nil {
			v.Spec.ClusterIPs = []string{v.Spec.ClusterIP} // as the API server does before it looks
		}
		return corevalidation.ValidateServiceCreate(v)
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(v)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(v)
	case *core.Namespace:
		return corevalidation.ValidateNamespace(v)
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(v, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(v, networkingvalidation.NetworkPolicyValidationOptions{})
	}
	return field.ErrorList{field.NotSupported(field.NewPath("kind"), o.kind,
		[]string{"those that this test has rules for"})}
}

func TestObjectsAreValid(t *testing.T) {
	for _, place := range places(t) {
		for _, o := range build(t, place) {
			for _, err := range validate(t, o) {
				t.Errorf("%s: %v", o.from, err)
			}
		}
	}
}

// TestValidationBites holds that the rules are the API server's.
func TestValidationBites(t *testing.T) {
	for _, o := range build(t, root+"/k8s/base") {
		switch v := o.obj.(type) {
		case *appsv1.StatefulSet:
			v.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "nowhere"
		case *corev1.Service:
			v.Spec.Ports[0].Port = 70000
		default:
			continue
		}
		if len(validate(t, o)) == 0 {
			t.Errorf("%s was spoilt, and passes", o.from)
		}
	}
}

// TestPodsFollowTheStandardOfTheirNamespace asks pod security admission what it would say.
func TestPodsFollowTheStandardOfTheirNamespace(t *testing.T) {
	rules, err := podsecuritypolicy.NewEvaluator(podsecuritypolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range places(t) {
		objects := build(t, place)
		level := podsecurity.Level(selectType[*corev1.Namespace](objects)[0].Labels[podsecurity.EnforceLevelLabel])
		if _, err := podsecurity.ParseLevel(string(level)); err != nil {
			t.Errorf("%s: %v", place, err)
		}
		for _, s := range selectType[*appsv1.StatefulSet](objects) {
			standard := podsecurity.LevelVersion{Level: level, Version: podsecurity.LatestVersion()}
			verdict := podsecuritypolicy.AggregateCheckResults(rules.EvaluatePod(standard, &s.Spec.Template.ObjectMeta,
				&s.Spec.Template.Spec))
			if !verdict.Allowed {
				t.Errorf("%s: %s: %s", place, s.Name, verdict.ForbiddenDetail())
			}
			for _, c := range s.Spec.Template.Spec.Containers {
				if sec := c.SecurityContext; sec == nil || sec.ReadOnlyRootFilesystem == nil || !*sec.ReadOnlyRootFilesystem {
					t.Errorf("%s: %s can write to its image", place, s.Name)
				}
			}
		}
	}
}

// TestCertificates holds the certificates of cert-manager to what node/certs reads: one ringlet:// name that is also
// the DNS name, keys in PKCS 8, both usages, an authority that signs directly.
func TestCertificates(t *testing.T) {
	objects := build(t, overlays+"/cert-manager")
	issuers := map[string]bool{}
	for _, i := range selectType[*certmanager.Issuer](objects) {
		issuers[i.Name] = true
	}
	leaves := 0
	for _, c := range selectType[*certmanager.Certificate](objects) {
		if !issuers[c.Spec.IssuerRef.Name] {
			t.Errorf("%s: there is no issuer %s", c.Name, c.Spec.IssuerRef.Name)
		}
		if key := c.Spec.PrivateKey; key == nil || key.Encoding != certmanager.PKCS8 ||
			key.Algorithm != certmanager.ECDSAKeyAlgorithm {
			t.Errorf("%s: its key is not ECDSA in PKCS 8", c.Name)
		}
		if c.Spec.Duration == nil || c.Spec.RenewBefore == nil ||
			c.Spec.Duration.Duration-c.Spec.RenewBefore.Duration < 24*time.Hour {
			t.Errorf("%s: lives %v, renewed %v before its end", c.Name, c.Spec.Duration, c.Spec.RenewBefore)
		}
		if c.Spec.IsCA {
			continue
		}
		leaves++
		names := 1
		if c.Name == "ringlet-cert-control" {
			names = 3 // and how browsers come to the page
		}
		if len(c.Spec.URIs) != 1 || len(c.Spec.DNSNames) != names || len(c.Spec.Usages) != 3 {
			t.Errorf("%s: names %v, %v, usages %v", c.Name, c.Spec.URIs, c.Spec.DNSNames, c.Spec.Usages)
			continue
		}
		u, err := url.Parse(c.Spec.URIs[0])
		name := strings.TrimPrefix(u.Path, "/")
		role := map[string]string{"control": "control", "crew": "operator", "visitor": "viewer"}[name]
		if role == "" {
			role = "node"
		}
		if err != nil || u.Scheme != "ringlet" || u.Host != role || name != c.Spec.DNSNames[0] ||
			c.Spec.SecretName != "ringlet-cert-"+name {
			t.Errorf("%s: %s in secret %s", c.Name, c.Spec.URIs[0], c.Spec.SecretName)
		}
	}
	var wanted int
	for _, s := range selectType[*appsv1.StatefulSet](objects) {
		wanted += int(*s.Spec.Replicas)
	}
	if leaves != wanted+2 {
		t.Errorf("%d certificates for %d pods and two people", leaves, wanted)
	}
}
