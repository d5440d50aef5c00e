// Package controlplane pins the parts of a real Kubernetes control plane that the tests run against.
// It holds no code: go.mod names kube-apiserver, kube-controller-manager and etcd as tools, go.sum their hashes.
package controlplane
