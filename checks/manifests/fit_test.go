package manifests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// secrets are made by k8s/dev-certs.sh or by cert-manager, and by nobody here.
const secrets = "ringlet-"

// matches says whether a selector finds the pods of a set.
func matches(t *testing.T, selector *metav1.LabelSelector, s *appsv1.StatefulSet) bool {
	t.Helper()
	found, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return !found.Empty() && found.Matches(labels.Set(s.Spec.Template.Labels))
}

// port finds a container's port by name or number.
func port(s *appsv1.StatefulSet, want intstr.IntOrString, protocol corev1.Protocol) *corev1.ContainerPort {
	for _, c := range s.Spec.Template.Spec.Containers {
		for i, p := range c.Ports {
			if p.Protocol == protocol && (want.Type == intstr.String && p.Name == want.StrVal || want.Type == intstr.Int &&
				p.ContainerPort == want.IntVal) {
				return &c.Ports[i]
			}
		}
	}
	return nil
}

func TestServicesFindTheirPods(t *testing.T) {
	for _, place := range places(t) {
		objects := build(t, place)
		sets := selectType[*appsv1.StatefulSet](objects)
		services := map[string]bool{}
		for _, svc := range selectType[*corev1.Service](objects) {
			services[svc.Name] = svc.Spec.ClusterIP == corev1.ClusterIPNone
			var found, others []string // components: of what it finds, and of what it does not
			for _, s := range sets {
				component := s.Spec.Template.Labels["app.kubernetes.io/component"]
				if !matches(t, &metav1.LabelSelector{MatchLabels: svc.Spec.Selector}, s) {
					others = append(others, component)
					continue
				}
				found = append(found, component)
				for _, p := range svc.Spec.Ports {
					to := port(s, p.TargetPort, p.Protocol)
					if to == nil || to.ContainerPort != p.Port {
						t.Errorf("%s: service %s port %s leads to %v of %s", place, svc.Name, p.Name, to, s.Name)
					}
				}
			}
			// All sets of nodes may share one: but it finds nothing beside them, and leaves none of them out.
			if found = slices.Compact(found); len(found) != 1 || slices.Contains(others, found[0]) {
				t.Errorf("%s: service %s finds pods of %v, and not those of %v", place, svc.Name, found, others)
			}
		}
		for _, s := range sets {
			if headless, there := services[s.Spec.ServiceName]; !there || !headless {
				t.Errorf("%s: %s has no headless service %s", place, s.Name, s.Spec.ServiceName)
			}
		}
	}
}

func TestBudgetsAndSpreadFindTheNodes(t *testing.T) {
	for _, place := range places(t) {
		objects := build(t, place)
		for _, s := range selectType[*appsv1.StatefulSet](objects) {
			for _, other := range selectType[*appsv1.StatefulSet](objects) {
				if matches(t, s.Spec.Selector, other) != (s.Name == other.Name) {
					t.Errorf("%s: %s does not select its own pods, or selects those of %s", place, s.Name, other.Name)
				}
			}
			for _, c := range s.Spec.Template.Spec.TopologySpreadConstraints {
				if !matches(t, c.LabelSelector, s) || c.WhenUnsatisfiable != corev1.DoNotSchedule {
					t.Errorf("%s: %s is not spread", place, s.Name)
				}
			}
		}
		for _, b := range selectType[*policyv1.PodDisruptionBudget](objects) {
			for _, s := range selectType[*appsv1.StatefulSet](objects) {
				if matches(t, b.Spec.Selector, s) != hasNodes(s) {
					t.Errorf("%s: budget %s does not find the nodes, and them alone: %s", place, b.Name, s.Name)
				}
			}
		}
	}
}

// TestNetworkPolicyLetsEveryPortIn holds that what a container listens on is let in by the policies of its pod, and
// nothing else.
func TestNetworkPolicyLetsEveryPortIn(t *testing.T) {
	for _, place := range places(t) {
		objects := build(t, place)
		for _, s := range selectType[*appsv1.StatefulSet](objects) {
			var listens, admits []string
			for _, p := range s.Spec.Template.Spec.Containers[0].Ports {
				listens = append(listens, fmt.Sprintf("%s %d", p.Protocol, p.ContainerPort))
			}
			for _, n := range selectType[*networkingv1.NetworkPolicy](objects) {
				if !matches(t, &n.Spec.PodSelector, s) {
					continue
				}
				for _, in := range n.Spec.Ingress {
					for _, p := range in.Ports {
						admits = append(admits, fmt.Sprintf("%s %d", *p.Protocol, p.Port.IntVal))
					}
				}
			}
			slices.Sort(listens)
			slices.Sort(admits)
			if !slices.Equal(listens, slices.Compact(admits)) {
				t.Errorf("%s: %s listens on %v, and %v are let in", place, s.Name, listens, admits)
			}
		}
	}
}

// TestNetworkPolicyKnowsHosts holds that nodes on their hosts' network reach the control, and it them: they come with
// addresses that no selector of pods knows.
func TestNetworkPolicyKnowsHosts(t *testing.T) {
	onHosts := false
	for _, place := range places(t) {
		objects := build(t, place)
		if !slices.ContainsFunc(selectType[*appsv1.StatefulSet](objects),
			func(s *appsv1.StatefulSet) bool { return s.Spec.Template.Spec.HostNetwork }) {
			continue
		}
		onHosts = true
		for _, n := range selectType[*networkingv1.NetworkPolicy](objects) {
			if n.Name != "ringlet-control" {
				continue
			}
			var peers []networkingv1.NetworkPolicyPeer
			for _, in := range n.Spec.Ingress {
				peers = append(peers, in.From...)
			}
			for _, out := range n.Spec.Egress {
				peers = append(peers, out.To...)
			}
			if slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool { return p.PodSelector != nil }) {
				t.Errorf("%s: %s selects pods, and its nodes have their hosts' addresses", place, n.Name)
			}
		}
	}
	if !onHosts {
		t.Error("no overlay has its nodes on the hosts' network: this test holds nothing")
	}
}

// TestArgumentsFitThePod holds ports, mounts and times of the arguments to those of the pod.
func TestArgumentsFitThePod(t *testing.T) {
	for _, place := range places(t) {
		objects := build(t, place)
		for _, s := range selectType[*appsv1.StatefulSet](objects) {
			spec := s.Spec.Template.Spec
			c := spec.Containers[0]
			for _, arg := range c.Args[1:] {
				flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				number := value[strings.LastIndex(value, ":")+1:]
				switch flag {
				case "port", "gossip-port", "service-port", "data-port", "api", "page", "monitor":
					n, err := strconv.Atoi(number)
					if err != nil || port(s, intstr.FromInt(n), corev1.ProtocolTCP) == nil &&
						port(s, intstr.FromInt(n), corev1.ProtocolUDP) == nil {
						t.Errorf("%s: %s is told %s, and declares no such port", place, s.Name, arg)
					}
				case "certs", "state", "config":
					if !slices.ContainsFunc(c.VolumeMounts,
						func(m corev1.VolumeMount) bool { return strings.HasPrefix(value+"/", m.MountPath+"/") }) {
						t.Errorf("%s: %s is told %s, where nothing is mounted", place, s.Name, arg)
					}
				case "grace":
					grace, err := time.ParseDuration(value)
					if err != nil || time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second <= grace {
						t.Errorf("%s: %s has %d s to end, and takes %s", place, s.Name, *spec.TerminationGracePeriodSeconds, value)
					}
				case "join":
					host, p, _ := strings.Cut(value, ":")
					if !slices.ContainsFunc(selectType[*corev1.Service](objects), func(v *corev1.Service) bool {
						return v.Name == host && strconv.Itoa(int(v.Spec.Ports[0].Port)) == p && v.Spec.PublishNotReadyAddresses
					}) {
						t.Errorf("%s: %s joins at %s, which is no service that is there before its pods are ready", place, s.Name, value)
					}
				}
			}
			for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if p == nil || p.HTTPGet == nil || port(s, p.HTTPGet.Port, corev1.ProtocolTCP) == nil ||
					p.HTTPGet.Port.StrVal != "monitor" {
					t.Errorf("%s: %s has a probe that asks nobody: %v", place, s.Name, p)
				}
			}
		}
	}
}

// TestVolumesComeFromSomewhere holds that a pod mounts only what is made here or told to be made.
func TestVolumesComeFromSomewhere(t *testing.T) {
	for _, place := range places(t) {
		objects := build(t, place)
		maps := map[string]bool{}
		for _, m := range selectType[*corev1.ConfigMap](objects) {
			maps[m.Name] = true
		}
		for _, s := range selectType[*appsv1.StatefulSet](objects) {
			names := map[string]bool{}
			for _, v := range s.Spec.Template.Spec.Volumes {
				if v.ConfigMap != nil && !maps[v.ConfigMap.Name] {
					t.Errorf("%s: %s mounts the configuration %s", place, s.Name, v.ConfigMap.Name)
				}
				if v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
					limit := s.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
					if v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Cmp(*limit) >= 0 {
						t.Errorf("%s: %s may fill its memory of %v with segments", place, s.Name, limit)
					}
				}
				if v.Projected == nil {
					continue
				}
				for _, source := range v.Projected.Sources {
					if source.Secret == nil || !strings.HasPrefix(source.Secret.Name, secrets) {
						t.Errorf("%s: %s: volume %s has a source that nobody makes", place, s.Name, v.Name)
						continue
					}
					for _, item := range source.Secret.Items {
						names[item.Path] = true
					}
				}
			}
			for i := range *s.Spec.Replicas {
				who, folder := "control", ""
				if hasNodes(s) {
					who = fmt.Sprintf("%s-%d", s.Name, i)
					folder = who + "/"
				}
				for _, file := range []string{"ca.crt", "gossip.key", who + ".crt", who + ".key"} {
					if !names[folder+file] {
						t.Errorf("%s: nobody gives %s%s to %s", place, folder, file, s.Name)
					}
				}
			}
		}
	}
}
