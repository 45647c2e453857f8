"""Kubernetes Leases as locks, against a stand-in for the API server over real etcd."""

PORT = 8001
NAMESPACE = "holdfast"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
"""Path of the leases of the one namespace."""
