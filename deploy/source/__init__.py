"""The objects of deploy/, as Python values: one source for kustomize and for the Helm chart (deploy/make.py)."""
