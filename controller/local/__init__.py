"""A cluster on one machine: the embedded Postgres, a local API server and a kubelet that runs pods as processes."""
